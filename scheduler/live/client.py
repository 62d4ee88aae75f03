"""The HTTP client of the scheduler, for the command line and for servers whose pages ask it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

from ingest.prompt_client import PromptClient
from warehouse.errors import LedgerError, UnansweredError

DEFAULT_URL = "http://127.0.0.1:8070"
TIMEOUT_SECONDS = 30.0


class Client:
    """Errors: LedgerError in one line if the scheduler refuses a request or does not answer; UnansweredError if it may
    have done what it was asked nevertheless."""

    def __init__(self, url: str, token: str = "", actor: str = "", seconds: float = TIMEOUT_SECONDS) -> None:
        headers = {"x-actor": "".join(c for c in actor if c.isprintable()).strip().encode()}
        headers |= {"authorization": f"Bearer {token}".encode()} if token else {}
        self._url = url.rstrip("/")
        self._http = PromptClient(seconds, base_url=self._url, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def submit(self, job: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._asked("POST", "/api/v1/jobs", json=job)
        return answer

    def jobs(self, status: str = "", queue: str = "") -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._asked("GET", "/api/v1/jobs", params={"status": status, "queue": queue})
        return answer

    def explain(self, job_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._asked("GET", f"/api/v1/jobs/{_step(job_id)}")
        return answer

    def act(self, job_id: str, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Does an action on a job.   what: cancel, hold, release, suspend, resume, renew, reclaim, propose,
        keep, ready, rescale or finish."""
        answer: dict[str, Any] = self._asked("POST", f"/api/v1/jobs/{_step(job_id)}/{what}", json=body or {})
        return answer

    def room(self, job_id: str, most_moves: int = 4) -> dict[str, Any]:
        """Moves that would make room for a pending job."""
        answer: dict[str, Any] = self._asked("GET", f"/api/v1/room/{_step(job_id)}", params={"most_moves": most_moves})
        return answer

    def pools(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._asked("GET", "/api/v1/pools")
        return answer

    def idle(self) -> dict[str, Any]:
        """Running jobs that are idle."""
        answer: dict[str, Any] = self._asked("GET", "/api/v1/idle")
        return answer

    def services(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._asked("GET", "/api/v1/services")
        return answer

    def demand(
        self, service: str, waiting: int | None, working: int | None, utilization: float | None = None
    ) -> dict[str, Any]:
        """Reports a service's waiting requests, requests in work, and mean utilization of ready replicas (0-1); None:
        not reported."""
        reported = {"waiting": waiting, "working": working, "utilization": utilization}
        body = {key: value for key, value in reported.items() if value is not None}
        answer: dict[str, Any] = self._asked("POST", f"/api/v1/services/{_step(service)}", json=body)
        return answer

    def set_node(self, name: str, state: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._asked("POST", f"/api/v1/nodes/{_step(name)}", json={"state": state})
        return answer

    def _asked(self, method: str, path: str, **what: Any) -> Any:
        try:
            answer = self._http.request(method, path, **what)
            document = answer.json()
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            problem = f"does not answer as a scheduler ({error})"
            if method == "GET" or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                raise LedgerError(self._url, problem, "Start `gpuledger scheduler`, or give its --url") from error
            raise UnansweredError(
                self._url, problem, "It may be done all the same: look before you ask again"
            ) from error
        if answer.is_success:
            return document
        detail = document.get("detail", document) if isinstance(document, dict) else document
        raise LedgerError(f"scheduler at {self._url}", str(detail))


def _step(name: str) -> str:
    """A name as one segment of a URL's path."""
    return quote(name).replace(".", "%2E")


def read_token(path: Path | None) -> str:
    """The file's only line; '' without a file.   Errors: LedgerError if it is too short to be a secret."""
    if path is None:
        return ""
    try:
        token = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if len(token) < 16 or not token.isprintable():
        raise LedgerError(str(path), "is not a token", "Expected one line of at least 16 ASCII characters")
    return token
