"""`make audit` against a vulnerability service that knows what we tell it, and where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.conftest import REPO

if not (REPO / ".venv/bin/pip-audit").exists():
    pytest.skip("pip-audit is not installed", allow_module_level=True)
KNOWN = {
    "vulns": [
        {
            "id": "GHSA-0000-0000-0000",
            "aliases": ["CVE-2026-0000"],
            "summary": "a vulnerability of the tests",
            "modified": "2026-01-01T00:00:00Z",
            "published": "2026-01-01T00:00:00Z",
            "affected": [
                {
                    "package": {"name": "starlette", "ecosystem": "PyPI"},
                    "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999"}]}],
                }
            ],
        }
    ]
}


@contextmanager
def service(known: dict[str, Any], status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the packages that it was asked for."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(query["package"]["name"])
            body = json.dumps(known.get(query["package"]["name"], {})).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
    finally:
        server.shutdown()
        server.server_close()


def audit(url: str) -> tuple[int, str]:
    proxies = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [".ci/audit"], cwd=REPO, env={**os.environ, **proxies, "OSV_URL": url}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_every_locked_version_is_looked_up_and_what_is_known_fails() -> None:
    with service({"starlette": KNOWN}) as (url, asked):
        code, output = audit(url)
    assert (code, "starlette" in output, "GHSA-0000-0000-0000" in output or "CVE-2026-0000" in output) == (
        1,
        True,
        True,
    ), output
    assert {"starlette", "uvicorn", "dash", "chdb-core", "sqlglot", "nvidia-ml-py"} <= set(asked)
    assert "1 known vulnerabilities" in output


def test_where_nothing_is_known_it_says_how_many_were_looked_up() -> None:
    with service({}) as (url, asked):
        code, output = audit(url)
    assert (code, f"{len(asked)} locked versions" in output, "NOT CHECKED" in output) == (0, True, False), output


@pytest.mark.parametrize("status", [None, 503])
def test_where_the_data_cannot_be_had_it_is_not_silently_green(status: int | None) -> None:
    if status is None:
        code, output = audit("http://127.0.0.1:9/v1/query")
    else:
        with service({}, status) as (url, _):
            code, output = audit(url)
    assert (code, output.startswith("audit: NOT CHECKED")) == (75, True), output
