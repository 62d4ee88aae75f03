"""The HTTP client of the scheduler, for the command line and for servers whose pages ask it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

from ingest.prompt_client import PromptClient
from warehouse.connection_errors import reason
from warehouse.errors import LedgerError, UnansweredError

DEFAULT_URL = "http://127.0.0.1:8070"
TIMEOUT_SECONDS = 30.0
GIVE_URL = "Start `gpuledger scheduler`, or give its --url"


class Client:
    """Errors: LedgerError in one line if the scheduler refuses a request or does not answer; UnansweredError if it may
    have done what it was asked nevertheless.   unanswered: what to do where nothing listens."""

    def __init__(
        self, url: str, token: str = "", actor: str = "", seconds: float = TIMEOUT_SECONDS, unanswered: str = GIVE_URL
    ) -> None:
        headers = {"x-actor": "".join(c for c in actor if c.isprintable()).strip().encode()}
        headers |= {"authorization": f"Bearer {token}".encode()} if token else {}
        self._url, self._unanswered = url.rstrip("/"), unanswered
        self._http = PromptClient(seconds, base_url=self._url, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def submit(self, job: Mapping[str, Any]) -> dict[str, Any]:
        return self._document("POST", "/api/v1/jobs", json=job)

    def jobs(self, status: str = "", queue: str = "") -> list[dict[str, Any]]:
        return self._rows("/api/v1/jobs", ("nodes",), params={"status": status, "queue": queue})

    def explain(self, job_id: str) -> dict[str, Any]:
        return self._document("GET", f"/api/v1/jobs/{_step(job_id)}", ("history",))

    def act(self, job_id: str, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Does an action on a job.   what: cancel, hold, release, suspend, resume, renew, reclaim, propose,
        keep, ready, rescale or finish."""
        return self._document("POST", f"/api/v1/jobs/{_step(job_id)}/{what}", ("status",), json=body or {})

    def room(self, job_id: str, most_moves: int = 4) -> dict[str, Any]:
        """Moves that would make room for a pending job."""
        return self._document("GET", f"/api/v1/room/{_step(job_id)}", ("moves",), params={"most_moves": most_moves})

    def pools(self) -> list[dict[str, Any]]:
        return self._rows("/api/v1/pools")

    def idle(self) -> dict[str, Any]:
        """Running jobs that are idle."""
        return self._document("GET", "/api/v1/idle", ("jobs", "problem"))

    def services(self) -> list[dict[str, Any]]:
        return self._rows("/api/v1/services")

    def demand(
        self, service: str, waiting: int | None, working: int | None, utilization: float | None = None
    ) -> dict[str, Any]:
        """Reports a service's waiting requests, requests in work, and mean utilization of ready replicas (0-1); None:
        not reported."""
        reported = {"waiting": waiting, "working": working, "utilization": utilization}
        body = {key: value for key, value in reported.items() if value is not None}
        return self._document("POST", f"/api/v1/services/{_step(service)}", json=body)

    def set_node(self, name: str, state: str) -> dict[str, Any]:
        return self._document("POST", f"/api/v1/nodes/{_step(name)}", json={"state": state})

    def _document(self, method: str, path: str, needs: Collection[str] = (), **what: Any) -> dict[str, Any]:
        """needs: keys that it must have."""
        answer = self._asked(method, path, **what)
        if not isinstance(answer, dict) or not answer.keys() >= {*needs}:
            raise self._is_none(method, "but with other JSON")
        return answer

    def _rows(self, path: str, needs: Collection[str] = (), **what: Any) -> list[dict[str, Any]]:
        answer = self._asked("GET", path, **what)
        if not isinstance(answer, list) or not all(isinstance(row, dict) and row.keys() >= {*needs} for row in answer):
            raise self._is_none("GET", "but with other JSON")
        return answer

    def _asked(self, method: str, path: str, **what: Any) -> Any:
        try:
            answer = self._http.request(method, path, **what)
            document = answer.json()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._is_none("GET", reason(error)) from error  # whatever was asked: nobody heard it
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise self._is_none(method, reason(error)) from error
        if answer.is_success:
            return document
        detail = document.get("detail", document) if isinstance(document, dict) else document
        raise LedgerError(f"scheduler at {self._url}", str(detail))

    def _is_none(self, method: str, why: str) -> LedgerError:
        """The error of what does not answer as a scheduler: one of its kind may have done what it was asked."""
        problem = f"does not answer as a scheduler ({why})"
        if method == "GET":
            return LedgerError(self._url, problem, self._unanswered)
        return UnansweredError(self._url, problem, "It may be done all the same: look before you ask again")


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
