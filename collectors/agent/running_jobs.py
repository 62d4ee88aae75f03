"""Creates the worker that runs the scheduler's jobs on this node, from the agent's settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

from collectors.agent.settings import AgentSettings
from collectors.errors import CollectorError
from collectors.jobs.devices import devices_here
from collectors.jobs.launchers import refuse_beside
from collectors.jobs.processes import Processes, user_named
from collectors.jobs.worker import LOOPBACK, RankEnvironment, Worker, over_http


@contextlib.contextmanager
def running_jobs(settings: AgentSettings) -> Iterator[Worker]:
    """Errors: CollectorError if this node may not run jobs, or not with these settings."""
    own = settings.run_jobs
    if own.url is None or own.token_file is None:
        raise CollectorError("run_jobs", "has no url or token_file", "See docs/agent.md")
    refuse_beside(own.beside, "run_jobs")
    user = user_named(own.user, "run_jobs.user")
    exchange = over_http(own.url, settings.node, own.token_file, own.ca_file, max(10.0, own.every_seconds))
    is_here = urlsplit(own.url).hostname in LOOPBACK
    address = own.address or ("127.0.0.1" if is_here else settings.node)
    place = RankEnvironment(address, own.ports, own.visible_devices, devices_here())
    processes = Processes(own.folder, own.grace_seconds, user, own.folder.absolute() / "lease", own.log_bytes)
    with contextlib.closing(processes):
        yield Worker(processes, place, exchange, own.every_seconds, own.grace_seconds)
