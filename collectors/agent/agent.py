"""The agent as a whole: its threads, its health, and a clean shutdown."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from collectors.agent import own_metrics
from collectors.agent.cycle import Cycle
from collectors.agent.exposition import DeviceMetrics, render
from collectors.agent.outbox import Outbox
from collectors.agent.privileges import Privilege, check, library, missing
from collectors.agent.running_jobs import running_jobs
from collectors.agent.settings import AgentSettings
from collectors.agent.sources import NVML, Planned, Source, planned
from collectors.agent.web import METRICS_TYPE, Page, as_json, serving
from collectors.errors import CollectorError
from collectors.interruptible import InterruptedAskError, answered
from collectors.jobs.worker import Worker
from collectors.readings import Collected, Row
from ingest.deliver import Deliverer
from ingest.spool import Spool
from ingest.targets import Sender, target
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 10.0
PATIENCE_SECONDS = 5.0
"""How long shutdown waits for all threads together; what was spooled is safe in any case."""
UNDELIVERED_LONG = timedelta(minutes=10)
"""Delivery that fails for longer makes the agent not ready."""


@dataclass
class Agent:
    """The parts of a running agent."""

    settings: AgentSettings
    spool: Spool
    outbox: Outbox
    cycles: Sequence[Cycle]
    deliverer: Deliverer | None
    privileges: Sequence[Privilege]
    devices: DeviceMetrics = field(default_factory=DeviceMetrics)
    worker: Worker | None = None

    def metrics(self, now: datetime) -> str:
        delivery = self.deliverer.state if self.deliverer is not None else None
        families = own_metrics.families(self.cycles, self.outbox, self.spool.state(), delivery, self.privileges, now)
        return render([*families, *(self.devices.families(now) if self.settings.metrics.devices else ())])

    def trouble(self, now: datetime) -> list[str]:
        """Why the agent is not ready, each in words; empty if it is."""
        found = [f"{cycle.name} has not answered for several intervals" for cycle in self.cycles if cycle.stalled()]
        found += [f"{cycle.name}: {cycle.state.error}" for cycle in self.cycles if cycle.state.error]
        if self.spool.disk_error:
            found.append(f"spool: the disk takes nothing ({self.spool.disk_error})")
        if self.worker is not None and self.worker.state.problem:
            found.append(f"jobs: {self.worker.state.problem}")
        since = self.deliverer.state.failing_since if self.deliverer is not None else None
        if self.deliverer is not None and since is not None and now - since >= UNDELIVERED_LONG:
            found.append(f"delivery fails since {since:%Y-%m-%dT%H:%M:%SZ}: {self.deliverer.state.problem}")
        return found

    def pages(self) -> dict[str, Page]:
        def metrics() -> tuple[int, str, str]:
            return 200, METRICS_TYPE, self.metrics(datetime.now(UTC))

        def healthz() -> tuple[int, str, str]:
            stalled = [cycle.name for cycle in self.cycles if cycle.stalled()]
            return as_json(len(stalled) < max(1, len(self.cycles)), {"stalled": stalled})

        def readyz() -> tuple[int, str, str]:
            trouble = self.trouble(datetime.now(UTC))
            return as_json(not trouble, {"trouble": trouble})

        return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def run(
    settings: AgentSettings,
    stop: threading.Event,
    sources: Sequence[Planned] | None = None,
    on_rows: Callable[[dict[str, list[Row]]], None] | None = None,
) -> None:
    """Runs an agent until told to stop; then everything that was collected is in its spool.

    sources: instead of those that the settings name.   on_rows: is shown every tick's rows.
    Errors: LedgerError if the settings cannot be used (a spool that another process has, an address that is taken), or
            if only a new process can go on.
    """
    with contextlib.ExitStack() as stack:
        kept = settings.spool
        spool = stack.enter_context(Spool(kept.folder, kept.max_bytes, kept.memory_bytes, kept.synced))
        spool.take_up_again()
        deliverer = _deliverer(settings, spool)
        outbox = Outbox(spool, settings.cluster, settings.node)
        privileges = check(settings)
        devices = DeviceMetrics()

        def show(source: str, collected: Collected, now: datetime) -> None:
            if settings.metrics.devices:
                devices.show(source, collected, now)
            if on_rows is not None:
                on_rows(collected.rows)

        restart: list[str] = []

        def end(why: str) -> None:
            restart.append(why)
            stop.set()

        cycles = [Cycle(one, outbox, show) for one in (planned(settings, end) if sources is None else sources)]
        worker = None if settings.run_jobs.url is None else stack.enter_context(running_jobs(settings))
        agent = Agent(settings, spool, outbox, cycles, deliverer, privileges, devices, worker)
        _report_privileges(privileges, outbox)
        if settings.metrics.port is not None:
            port = stack.enter_context(serving(settings.metrics.host, settings.metrics.port, agent.pages()))
            log.info("agent: metrics on %s:%d", settings.metrics.host, port)
        # What is loaded by now stays: the collector need not look through it again and again.
        gc.collect()
        gc.freeze()
        stack.enter_context(_threads(agent, stop))
        while not stop.wait(HOUSEKEEPING_SECONDS):
            _housekeeping(agent, datetime.now(UTC))
    if restart:
        raise CollectorError("agent", restart[0], "Start it again; systemd and Kubernetes do so by themselves")


def _deliverer(settings: AgentSettings, spool: Spool) -> Deliverer | None:
    deliver = settings.deliver
    if deliver.url is None:
        log.warning("agent: no deliver.url: rows stay in the spool, the oldest go when it is full")
        return None
    to = target(deliver.url, Sender(settings.cluster, settings.node), deliver.token_file, deliver.ca_file)
    return Deliverer(spool, to, deliver.every_seconds)


def _report_privileges(privileges: Sequence[Privilege], outbox: Outbox) -> None:
    """Logs missing privileges and reports them as findings, so that nobody takes an empty report for an idle node."""
    collected, now = Collected(), datetime.now(UTC)
    for privilege in missing(privileges):
        log.warning("agent: %s", privilege)
        finding = "no_permission" if privilege.state == "no_permission" else "source_unreachable"
        collected.add("findings", outbox.finding(now, finding, "warning", str(privilege), "agent"))
    outbox.put("agent", collected, now)


@contextlib.contextmanager
def _threads(agent: Agent, stop: threading.Event) -> Iterator[None]:
    """A thread for each source, one for delivery and one for jobs; at the end, waits for the sources and closes
    them."""
    collecting = [
        threading.Thread(target=cycle.run, args=(stop,), name=cycle.name, daemon=True) for cycle in agent.cycles
    ]
    delivering = []
    if agent.deliverer is not None:
        delivering = [threading.Thread(target=agent.deliverer.run, args=(stop,), name="deliver", daemon=True)]
    if agent.worker is not None:
        # What it tells now it tells again after the next start.
        delivering.append(threading.Thread(target=agent.worker.run, args=(stop,), name="jobs", daemon=True))
    for thread in (*collecting, *delivering):
        thread.start()
    try:
        yield
    finally:
        stop.set()
        until = time.monotonic() + PATIENCE_SECONDS
        for thread, cycle in zip(collecting, agent.cycles, strict=True):
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                log.warning("agent: %s did not answer at the end", cycle.name)
            else:
                cycle.source.close()
        for thread in delivering:
            # What it sends now is in the spool until it is acknowledged; it may be sent again.
            thread.join(max(0.0, until - time.monotonic()))


def _housekeeping(agent: Agent, now: datetime) -> None:
    agent.outbox.report_losses(now)
    stalled = Collected()
    for cycle in agent.cycles:
        if cycle.stalled() and not cycle.state.error:
            cycle.state.error = "has not answered for several intervals"
            text = f"{cycle.name} {cycle.state.error}"
            stalled.add("findings", agent.outbox.finding(now, "source_unreachable", "critical", text, cycle.name))
            log.error("agent: %s", text)
    if stalled.rows:
        agent.outbox.put("agent", stalled, now)


@dataclass(frozen=True)
class SourceReading:
    """The rows of one source.   problems: why it, or part of it, could not be read."""

    source: str
    collected: Collected
    problems: Sequence[str]


def once(settings: AgentSettings, stop: threading.Event, seconds: float = 1.0) -> Iterator[SourceReading]:
    """What each source says of the next `seconds`, and what is missing; nothing is spooled or delivered. That a machine
    has no driver is a problem where nothing else is asked; an agent beside a Prometheus needs none.

    Errors: InterruptedAskError if told to stop before all have answered.
    """
    for privilege in missing(check(settings)):
        log.warning("agent: %s", privilege)
    sources = planned(settings)
    beside = len(sources) > 1 and library().state == "unsupported"
    for one in sources:
        try:
            collected = answered(partial(_read_twice, one.source, stop, seconds), stop, one.name)
        except InterruptedAskError:
            raise
        except LedgerError as mistake:
            yield SourceReading(one.name, Collected(), [str(mistake)])
            continue
        problems = [
            str(row.get("message", ""))
            for row in collected.rows.get("findings", ())
            if row["finding"] == "source_unreachable" and not (beside and one.name == NVML)
        ]
        yield SourceReading(one.name, collected, list(dict.fromkeys(problems)))


def _read_twice(source: Source, stop: threading.Event, seconds: float) -> Collected:
    """Reads twice: the first read shows devices and problems, only the second one covers an interval of its own."""
    try:
        first = source.collect(_now())
        stop.wait(seconds)
        collected = Collected(
            {record: rows for record, rows in first.rows.items() if record in ("devices", "findings")}
        )
        collected += source.collect(_now())
        return collected
    finally:
        source.close()


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)
