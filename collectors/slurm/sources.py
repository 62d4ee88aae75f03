"""Access to Slurm: its commands on this machine, or slurmrestd."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from collectors.errors import CollectorError
from collectors.slurm import rest, sacct, scontrol
from collectors.slurm.jobs import Job, Site
from collectors.slurm.nodes import Node
from collectors.slurm.parsed import Parsed
from ingest.answer_time import ended_in_time

if TYPE_CHECKING:
    import httpx

NEWEST_KNOWN = 43
"""v0.0.NN: of the data parsers that are read, the newest."""
EPOCH_SINCE = 40
"""v0.0.NN: from here on a time may be asked for as plain seconds; before, only in the words of Slurm's commands."""
WINDOW = timedelta(hours=6)
"""Accounting is asked for so much at once: a job's JSON is 3 kB, and a large site has 100,000 jobs a day."""
_VERSIONED = re.compile(r"/slurmdb/v0\.0\.([0-9]{1,4})/jobs/?")


class Source(Protocol):
    """Errors of all three methods: CollectorError if Slurm cannot be asked."""

    def accounted(self, since: datetime, now: datetime) -> Parsed[Job]:
        """Every record of a job that was not over at `since`; some may come twice."""

    def controlled(self) -> Parsed[Job]:
        """Jobs that the controller has in memory, with the indices of their GPUs."""

    def nodes(self) -> Parsed[Node]: ...


class _RefusedError(CollectorError):
    """A command that failed, or answered something other than what was asked."""


@dataclass(frozen=True)
class Commands:
    """Runs `sacct`, `squeue` and `scontrol` without a shell, with times in UTC, so that no hour is ambiguous."""

    site: Site
    sacct: tuple[str, ...] = ("sacct",)
    squeue: tuple[str, ...] = ("squeue",)
    scontrol: tuple[str, ...] = ("scontrol",)
    timeout_seconds: float = 120.0

    def accounted(self, since: datetime, now: datetime) -> Parsed[Job]:
        parsed: Parsed[Job] = Parsed()
        for start, end in _windows(since, now):
            window = [f"--starttime={_clock(start)}", *([f"--endtime={_clock(end)}"] if end else [])]
            parsed += self._accounted([*self.sacct, "--allocations", "--allusers", "--duplicates", *window])
        return parsed

    def _accounted(self, asked: Sequence[str]) -> Parsed[Job]:
        try:
            return rest.read_jobs(self._json([*asked, "--json"]))
        except _RefusedError as refused:
            if "wckey" in (self.site.tenant, self.site.project, self.site.queue):
                raise CollectorError(refused.where, refused.what, "A wckey can only be read from JSON") from None
        return sacct.read(
            self._run([*asked, "--parsable2", f"--format={sacct.FORMAT}"]).decode("utf-8", "replace"), self._utc
        )

    def controlled(self) -> Parsed[Job]:
        return rest.read_jobs(self._json([*self.squeue, "--all", "--states=all", "--json"]))

    def nodes(self) -> Parsed[Node]:
        text = self._run([*self.scontrol, "show", "node"]).decode("utf-8", "replace")
        if not text.startswith("NodeName="):
            raise CollectorError(self.scontrol[0], f"names no node: {text[:80]!r}", "Try the command by hand")
        return scontrol.read_nodes(text, self._utc)

    @property
    def _utc(self) -> Site:
        return replace(self.site, zone=UTC)

    def _json(self, arguments: Sequence[str]) -> dict[str, Any]:
        answer = self._run(arguments)
        try:
            return rest.document(answer, arguments[0])
        except CollectorError as mistake:
            raise _RefusedError(mistake.where, mistake.what, mistake.next_step) from None

    def _run(self, arguments: Sequence[str]) -> bytes:
        environment = {**os.environ, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C.UTF-8"}
        where = arguments[0]
        try:
            done = subprocess.run(  # noqa: S603 - a list of arguments, from the site's own settings
                arguments, capture_output=True, timeout=self.timeout_seconds, env=environment, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise CollectorError(where, f"no answer in {self.timeout_seconds:g} s", "Is slurmdbd busy?") from late
        except OSError as mistake:
            raise CollectorError(where, f"cannot be run: {mistake}", "Install Slurm's commands, or use REST") from None
        if done.returncode:
            output = done.stderr.decode("utf-8", "replace").strip().replace("\n", "; ")[-300:]
            raise _RefusedError(where, f"exit status {done.returncode}: {output}", "Try the command by hand")
        return done.stdout


@dataclass(frozen=True)
class Rest:
    """slurmrestd at `url`, with the JWT in `token_file`, which is read for every request because tokens are renewed.

    url: http://, https://, or unix:/path of its socket, which needs no token.   version: of its data parser, e.g.
    v0.0.41; by default the newest that it offers and that is known here.   user: whose token it is, if the token does
    not say; up to 22.05 slurmrestd refuses a token without a name beside it.   ca_file: of the authority to trust,
    instead of the system's.
    """

    url: str
    token_file: Path | None = None
    version: str = ""
    user: str = ""
    ca_file: Path | None = None
    timeout_seconds: float = 120.0
    transport: httpx.BaseTransport | None = field(default=None, repr=False)
    _offered: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def accounted(self, since: datetime, now: datetime) -> Parsed[Job]:
        parsed: Parsed[Job] = Parsed()
        is_new = self._number() >= EPOCH_SINCE
        for window in _windows(since, now):
            asked = {
                name: f"{'' if is_new else 'uts'}{int(at.timestamp())}"
                for name, at in zip(("start_time", "end_time"), window, strict=True)
                if at is not None
            }
            if is_new:
                asked |= {"show_duplicates": "true", "skip_steps": "true"}
            parsed += rest.read_jobs(self._get("slurmdb", "jobs", asked))
        return parsed

    def controlled(self) -> Parsed[Job]:
        return rest.read_jobs(self._get("slurm", "jobs", {"flags": "DETAIL"} if self._number() >= EPOCH_SINCE else {}))

    def nodes(self) -> Parsed[Node]:
        return rest.read_nodes(self._get("slurm", "nodes", {}))

    def _number(self) -> int:
        if self.version:
            last = self.version.rsplit(".", 1)[-1]
            return int(last) if last.isdigit() else 0
        if not self._offered:
            self._offered.extend(self._versions())
        if known := [number for number in self._offered if number <= NEWEST_KNOWN]:
            return max(known)
        raise CollectorError(
            self.url, f"offers {_named(self._offered) or 'no accounting'}", "Try --rest-version with one of them"
        )

    def _versions(self) -> list[int]:
        """The data parsers that its own description names."""
        answer = self._answer("/openapi/v3", {})
        if answer.status_code != 200:
            raise self._refused(answer, "/openapi/v3", "See slurmrestd's log")
        paths = rest.document(answer.content, self.url).get("paths")
        return sorted({int(found[1]) for path in paths or () if (found := _VERSIONED.fullmatch(path))})

    def _get(self, plugin: str, what: str, asked: Mapping[str, str]) -> dict[str, Any]:
        path = f"/{plugin}/v0.0.{self._number()}/{what}"
        answer = self._answer(path, asked)
        if answer.status_code == 404:
            self._offered.clear()  # it may have been upgraded
            raise self._refused(
                answer, path, f"It offers {_named(self._versions()) or 'no accounting'}: name one with --rest-version"
            )
        if answer.status_code != 200:
            raise self._refused(answer, path, "See slurmrestd's log")
        return rest.document(answer.content, self.url + path)

    def _refused(self, answer: httpx.Response, path: str, next_step: str) -> CollectorError:
        try:
            message = rest.errors_of(answer.json())
        except (ValueError, AttributeError, RecursionError):
            message = " ".join(answer.text.split())[:500]
        if answer.status_code in (401, 403):
            next_step = "Renew the token: scontrol token"
        return CollectorError(self.url + path, f"HTTP {answer.status_code}: {message}".rstrip(": ."), next_step)

    def _answer(self, path: str, asked: Mapping[str, str]) -> httpx.Response:
        import ssl

        import httpx

        socket = self.url.removeprefix("unix:") if self.url.startswith("unix:") else ""
        base = "http://localhost" if socket else self.url.rstrip("/")
        try:
            headers, user = {}, self.user
            if self.token_file is not None:
                token = headers["X-SLURM-USER-TOKEN"] = self.token_file.read_text(encoding="utf-8").strip()
                user = user or _user_of(token)
            if user:
                headers["X-SLURM-USER-NAME"] = user
            transport = self.transport or (httpx.HTTPTransport(uds=socket) if socket else None)
            verify = ssl.create_default_context(cafile=str(self.ca_file)) if self.ca_file else True
            with (
                httpx.Client(timeout=self.timeout_seconds, verify=verify, transport=transport) as client,
                ended_in_time(2 * self.timeout_seconds, client.close),
            ):
                return client.get(base + path, params=dict(asked), headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as mistake:
            raise CollectorError(
                self.url + path, f"no answer: {mistake}", "Check the address and the token file"
            ) from mistake


def _user_of(token: str) -> str:
    """The user that a JWT of `scontrol token` names in its claim `sun`; '' if none. Slurm verifies the token, we do
    not."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        user = claims["sun"]
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return user if isinstance(user, str) else ""


def _windows(since: datetime, now: datetime) -> Iterator[tuple[datetime, datetime | None]]:
    """Parts of the time since then, the last without an end."""
    while now - since > WINDOW:
        yield since, since + WINDOW
        since += WINDOW
    yield since, None


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def _named(versions: Sequence[int]) -> str:
    return ", ".join(f"v0.0.{number}" for number in versions)
