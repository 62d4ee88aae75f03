"""Some drawn histories on a real API server; `python -m tests.scheduler.kubernetes` has as many as wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.collectors.kubernetes.control_plane import missing
from tests.draws import keep_seed
from tests.scheduler.kubernetes.real_histories import History, Site, a_site

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


def histories() -> range:
    return range(int(os.environ.get("GPULEDGER_REAL_OPERATORS", "3")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with a_site(tmp_path_factory.mktemp("histories")) as found:
        yield found


@pytest.mark.parametrize("number", histories())
def test_what_is_there_is_what_was_decided_and_hours_are_the_pods_lives(site: Site, number: int) -> None:
    seed = os.environ.get("GPULEDGER_SEED", f"{keep_seed()} real operator {number}")
    print(f"GPULEDGER_SEED={seed!r}")
    History(site, seed, number).run()
