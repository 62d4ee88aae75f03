"""Where Slurm is asked: its commands on this machine, or slurmrestd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from collectors.errors import CollectorError
from collectors.slurm import rest, sacct, scontrol
from collectors.slurm.jobs import Job, Site
from collectors.slurm.nodes import Node
from collectors.slurm.parsed import Parsed

if TYPE_CHECKING:
    import httpx


class Source(Protocol):
    """Errors of all three: CollectorError if it cannot be asked."""

    def accounted(self, since: datetime) -> Parsed[Job]:
        """Every record of a job that was not over at `since`."""

    def controlled(self) -> Parsed[Job]:
        """Jobs that the controller has in memory, with the indices of their GPUs."""

    def nodes(self) -> Parsed[Node]: ...


@dataclass(frozen=True)
class Commands:
    """`sacct` and `scontrol`, run without a shell; both are told to speak UTC, so that no hour is ambiguous.

    sacct, scontrol: the commands and what goes before their options, such as ("ssh", "head", "sacct").
    """

    site: Site
    sacct: tuple[str, ...] = ("sacct",)
    scontrol: tuple[str, ...] = ("scontrol",)
    timeout_seconds: float = 120.0

    def accounted(self, since: datetime) -> Parsed[Job]:
        options = ["--allocations", "--allusers", "--duplicates", "--parsable2", f"--format={sacct.FORMAT}"]
        text = self._run([*self.sacct, *options, f"--starttime={since.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"])
        return sacct.read(text, self._utc)

    def controlled(self) -> Parsed[Job]:
        return scontrol.read_jobs(self._run([*self.scontrol, "show", "job", "--details"]), self._utc)

    def nodes(self) -> Parsed[Node]:
        return scontrol.read_nodes(self._run([*self.scontrol, "show", "node"]), self._utc)

    @property
    def _utc(self) -> Site:
        return replace(self.site, zone=UTC)

    def _run(self, arguments: Sequence[str]) -> str:
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
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1][:200]
            raise CollectorError(where, f"exit status {done.returncode}: {said}", "Try the command by hand")
        return done.stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class Rest:
    """slurmrestd at `url`, with the JWT in `token_file`, which is read for every request because tokens are renewed.

    version: of its data parser, e.g. v0.0.41.   ca_file: of the authority to trust, instead of the system's.
    """

    url: str
    token_file: Path
    version: str = "v0.0.41"
    user: str = ""
    ca_file: Path | None = None
    timeout_seconds: float = 120.0
    transport: httpx.BaseTransport | None = field(default=None, repr=False)

    def accounted(self, since: datetime) -> Parsed[Job]:
        asked: dict[str, str] = {"start_time": str(int(since.timestamp()))}
        if self._number >= 40:
            asked |= {"show_duplicates": "true", "skip_steps": "true"}
        return rest.read_jobs(self._get(f"/slurmdb/{self.version}/jobs", asked))

    def controlled(self) -> Parsed[Job]:
        asked = {"flags": "DETAIL"} if self._number >= 40 else {}
        return rest.read_jobs(self._get(f"/slurm/{self.version}/jobs", asked))

    def nodes(self) -> Parsed[Node]:
        return rest.read_nodes(self._get(f"/slurm/{self.version}/nodes", {}))

    @property
    def _number(self) -> int:
        last = self.version.rsplit(".", 1)[-1]
        return int(last) if last.isdigit() else 0

    def _get(self, path: str, asked: Mapping[str, str]) -> dict[str, Any]:
        import ssl

        import httpx

        where = self.url.rstrip("/") + path
        try:
            headers = {"X-SLURM-USER-TOKEN": self.token_file.read_text(encoding="utf-8").strip()}
            if self.user:
                headers["X-SLURM-USER-NAME"] = self.user
            verify = ssl.create_default_context(cafile=str(self.ca_file)) if self.ca_file else True
            with httpx.Client(timeout=self.timeout_seconds, verify=verify, transport=self.transport) as client:
                answer = client.get(where, params=dict(asked), headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as mistake:
            raise CollectorError(where, f"no answer: {mistake}", "Check the address and the token file") from mistake
        if answer.status_code != 200:
            raise CollectorError(where, f"HTTP {answer.status_code}: {answer.text[:120]}", "Check token and version")
        return rest.document(answer.content, where)
