"""How the API is reached: by the environment's proxy, and with which token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from collectors.kubernetes.api import DEEPEST, Api, Interrupted, decoded
from collectors.kubernetes.connection import Connection, KubernetesError
from tests.collectors.kubernetes.server import PODS, serving


async def listed(connection: Connection) -> Sequence[Any]:
    api = Api(connection)
    try:
        return [page async for page in api.pages(PODS)]
    finally:
        await api.close()


@pytest.mark.parametrize(
    ("variables", "asks_the_proxy"),
    [
        ({"HTTP_PROXY": "URL"}, True),
        ({"all_proxy": "URL"}, True),
        ({"http_proxy": "URL", "NO_PROXY": ".a.site"}, False),
    ],
)
def test_the_environment_says_by_which_proxy_and_for_which_servers_none(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], asks_the_proxy: bool
) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with serving() as (proxy, url):
        proxy.served |= {PODS}
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("URL", url))
        with contextlib.nullcontext() if asks_the_proxy else pytest.raises(Interrupted, match=r"kube\.a\.site"):
            assert len(asyncio.run(listed(Connection("http://kube.a.site")))) == 1
        assert bool(proxy.requests) == asks_the_proxy


def test_a_token_of_several_lines_is_one_line_of_error() -> None:
    with pytest.raises(KubernetesError, match="the token has characters that no token has"):
        asyncio.run(listed(Connection("http://127.0.0.1:1", token="a\nb: c")))


@pytest.mark.parametrize(("left", "right"), [('{"a":', "}"), ("[", "]"), ('[{"a\\"]}":', "}]")])
def test_an_object_nested_too_deeply_to_be_read_hides_no_other(left: str, right: str) -> None:
    deep = left * 5000 + '"]["' + right * 5000
    text = '{"items":[{"name":"one \\" { "},{"deep":DEEP,"name":"[two"},{"name":"three"}]}'
    items = decoded(text.replace("DEEP", deep).encode())["items"]
    assert [one["name"] for one in items] == ['one " { ', "[two", "three"]
    found, levels = items[1]["deep"], 0
    while found is not None:
        found, levels = (next(iter(found.values())) if isinstance(found, dict) else found[0]), levels + 1
    assert levels == DEEPEST - 3, "of the answer, which has three above it"
