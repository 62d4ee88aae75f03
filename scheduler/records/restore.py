"""Restores the exact state from a log's entries, and repeats recorded plans from the state before them.

Everything that decisions depend on is in the log, so the same entries make the same state, and the same state at the
same instant the same plan. Nodes are numbered in the order in which configurations first name them: a later one may add
nodes, never take any away (set their state instead).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler.codec import read, read_actions
from scheduler.cycle.core import Core
from scheduler.cycle.reasons import NAMES_NOBODY
from scheduler.metrics import Meter
from scheduler.model import Job, Node, NodeState, Plan
from scheduler.records.book import Book, Emit
from scheduler.records.cycles import decisive, plan_cycle, recall_cycle
from scheduler.records.events import NO_CAUSE, Cause, Writer, instant
from scheduler.records.ladder import REASONS
from scheduler.records.log import FREED_AT_END, FREEING, Entry
from scheduler.scaling import Scaled, ScalingPolicy
from scheduler.serverless import Services
from scheduler.settings import Settings, SettingsError, parse_settings
from scheduler.setup import WHOLE_GPUS, Setup, setup_of
from warehouse.errors import LedgerError
from warehouse.json_text import parse_json
from warehouse.private_files import naming, users_file

CYCLES = ("plan", "cycle")
KEEP = "Keep nodes as they were, and add new ones; one that is gone is set to failed or maintenance"

WHOLE = "Take the log, or its snapshot, whole and as it was written"


@dataclass
class Restored:
    """setup, settings: of the last configuration.   last, at: number and time of the last entry that went in.

    known_nodes: how many the configurations so far named.   planned_at: when something was last planned, or made
    smaller.   codes: of the reasons that a waiting job was last given.
    """

    book: Book
    core: Core
    setup: Setup
    settings: Settings
    services: Services
    last: int = 0
    at: float = 0.0
    known_nodes: int = 0
    planned_at: float = 0.0
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        """Applies an entry.   Errors: LedgerError if it contradicts the entries before it."""
        try:
            self._apply(entry)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            job = f" of job {entry.job_id}" if entry.job_id else ""
            what = f"its {entry.kind}{job} does not follow from what is before it ({error!r})"
            raise LedgerError(f"entry {entry.sequence}", what, WHOLE) from error

    def _apply(self, entry: Entry) -> None:
        body, at, number = entry.body, entry.at, entry.sequence
        book, job_id, where = self.book, entry.job_id, f"entry {number}"
        match entry.kind:
            case "submit":
                job = read(Job, body["job"], where)
                book.submit(job, at, number, body.get("actor", ""), body.get("payload"))
                self.services.submitted(job, at)
            case "reject":
                book.reject(read(Job, body["job"], where), at, number, Cause(**body["cause"]))
            case "hold":
                book.hold(job_id, at, body.get("actor", ""))
                self.codes.pop(job_id, None)
            case "release":
                book.release(job_id, at)
            case "suspend":
                book.suspend(job_id, at, number, Cause(**body["cause"]))
                self.codes.pop(job_id, None)
            case "resume":
                book.resume(job_id, at, number, Cause(**body["cause"]))
            case "plan":
                recall_cycle(self.core, body, at)
                actions = read_actions(body["actions"], where)
                book.decide(Plan(actions), at, number)
                for action in actions:
                    self.codes.pop(action.job_id, None)
                self.planned_at = at
            case "cycle":
                recall_cycle(self.core, body, at)
            case "renew":
                book.renew(job_id, at)
            case "warn":
                book.warn(job_id, body["ends_at"], at, number, Cause(**body["cause"]))
            case "idle":
                book.idle(job_id, body["step"], at, number, idle_cause(body), body)
            case "shrink":
                book.shrink(job_id, body["replicas"], at, number, Cause(**body["cause"]), body)
                self.planned_at = at
            case "rescale":
                least, most, cause = body["min_replicas"], body["max_replicas"], Cause(**body["cause"])
                policy = book.jobs[job_id].job.scaling
                if "scaling" in body:
                    policy = None if body["scaling"] is None else read(ScalingPolicy, body["scaling"], where)
                scaled = read(Scaled, body["scaled"], where) if "scaled" in body else None
                book.rescale(job_id, least, most, body["replicas"], at, number, cause, policy, scaled)
                self.codes.pop(job_id, None)
                self.planned_at = at
            case "vacate":
                book.vacate(job_id, body["ranks"], body["payload"], at, number)
                self.planned_at = at
            case "completing":
                book.completing(job_id)
            case "unheard" | "heard":
                book.hears(job_id, entry.kind == "heard")
            case "given_back":
                self.core.give_back(body["reservation"], body["start"], at)
            case "launched":
                book.launched(job_id, at, number, body.get("began_at"))
                live = book.jobs[job_id]
                self.services.launched(live.job, sum(sum(grant.units) for grant in live.grants), at)
            case "stop":
                book.stop(job_id, body["ending"], at, Cause(**body["cause"]))
                self.services.ended(book.jobs[job_id].job, at)
            case "cancel":
                book.cancel(job_id, Cause(**body["cause"]))
                self.services.ended(book.jobs[job_id].job, at)
            case "freed":
                job = book.jobs[job_id].job
                book.freed(job_id, at, number, body.get("ended_at"), body.get("began_at"))
                if job_id in book.jobs:
                    self.services.waits_again(job, at)
            case "end":
                self.services.ended(book.jobs[job_id].job, at, body["ending"] == "failed")
                self.codes.pop(job_id, None)
                cause = Cause(**body["cause"])
                book.end(job_id, body["ending"], at, number, cause, body.get("ended_at"))
            case "node":
                book.set_node(body["node"], body["state"], at)
            case "demand":
                state = self.services.states.get(body["service"])
                if state is not None:  # not in the settings any more, as in old logs
                    state.observe(body["waiting"], body["working"], at, body.get("utilization"))
            case "ready":
                self.services.ready(book.jobs[job_id].job, at)
                book.ready(job_id, at, number)
            case "configured":
                self._configure(entry)
            case "reasons":
                self.codes |= {name: tuple(one["code"] for one in found) for name, found in body.items()}
                for name, found in body.items():
                    interval = next((one["interval"] for one in found if "interval" in one), ())
                    book.waits(name, at, number, why_it_waits(found), interval)
        self.last, self.at = number, at

    def _configure(self, entry: Entry) -> None:
        settings = parse_settings(entry.body["settings"], f"entry {entry.sequence}")
        if self.last:
            settings.apply(self.core, entry.at)
            setup = setup_of(self.setup.name, settings, self.setup.nodes)
            if (setup.placement, setup.speeds) != (self.setup.placement, self.setup.speeds):
                self.core.placement = setup.placing(WHOLE_GPUS)
            self.book.meter.reconfigured(setup.tenants, setup.queues, entry.at)
            self.settings, self.setup = settings, setup
            self.services.reconfigure(settings.build_services())
        known = self.known_nodes
        self.known_nodes = len(settings.nodes())
        for number in range(known, self.known_nodes) if self.last else ():
            self._open(number, self.setup.nodes[number].state, entry.at)
        self.book.announce(range(known, self.known_nodes), entry.at)

    def _open(self, number: int, state: NodeState, at: float) -> None:
        self.core.set_node(number, state, at)
        self.book.meter.node(number, state, at)


def why_it_waits(found: Sequence[Mapping[str, Any]]) -> Cause:
    """The decisive reason. Tenants read events: where its text may name jobs of others, they get its numbers."""
    if not found:
        return NO_CAUSE
    first = found[0]
    numbers = (f"{name.replace('_', ' ')} {count:,}" for name, count in first.get("counts", {}).items())
    return Cause(first["code"], first.get("text", "") if first["code"] in NAMES_NOBODY else ", ".join(numbers))


def idle_cause(body: Mapping[str, Any]) -> Cause:
    """As callbacks have a step about an idle job."""
    return Cause(REASONS[body["step"]], body.get("text", ""), body.get("actor", ""))


def cause_body(cause: Cause) -> dict[str, Any]:
    return asdict(cause)


def check_nodes(configurations: Sequence[Entry], before: Sequence[Node] = ()) -> tuple[Node, ...]:
    """All nodes in the order in which configurations first named them.   Errors: SettingsError if one has not all of
    those before it, or not as they were.   before: nodes that earlier ones named."""
    known: dict[str, Node] = {node.name: node for node in before}
    for entry in configurations:
        nodes = {node.name: node for node in parse_settings(entry.body["settings"], f"entry {entry.sequence}").nodes()}
        for name, node in known.items():
            if nodes.get(name) != node:
                what = f"node {name} is {'described otherwise' if name in nodes else 'missing'}"
                raise SettingsError("pools", what, KEEP)
        known.update(nodes)
    return tuple(known.values())


def restore(
    entries: Iterable[Entry],
    configurations: Sequence[Entry],
    cluster: str,
    emit: Emit | None = None,
    freed: int | None = None,
    explain: bool = True,
) -> Restored:
    """The state after the entries.

    configurations: all `configured` entries among them.   emit: takes the rows of all events again.   freed: number of
    an entry after which cycles are planned again, for what they found of classes.   explain: whether plans say why.
    Errors: LedgerError if there is no configuration, or one took nodes away.
    """
    if not configurations:
        raise LedgerError("log", "has no configuration", "It was never used; start the scheduler once with --config")
    nodes = check_nodes(configurations)
    settings = parse_settings(configurations[0].body["settings"], f"entry {configurations[0].sequence}")
    setup = setup_of("live", settings, nodes)
    start = configurations[0].at
    core = setup.core((), start, explain)
    meter = Meter(nodes, setup.tenants, setup.queues, start)
    book = Book(core, meter, Writer(cluster, nodes), emit)
    restored = Restored(book, core, setup, settings, Services(settings.build_services()))
    for number in range(len(settings.nodes()), len(nodes)):
        restored._open(number, "failed", start)  # until a configuration names it
    for entry in entries:
        if freed is not None and entry.sequence > freed and entry.kind in CYCLES:
            plan_cycle(restored.core, entry.at)
        restored.apply(entry)
    return restored


@dataclass(frozen=True)
class Replay:
    """A recorded plan and the same plan made again, as JSON values: actions, and what decides later ones (see cycles).
    at: seconds since the epoch."""

    sequence: int
    at: float
    recorded: Mapping[str, Any]
    again: Mapping[str, Any]

    @property
    def same(self) -> bool:
        return self.recorded == self.again

    @property
    def instant(self) -> datetime:
        return instant(self.at)


def replays(
    entries: Sequence[Entry], plans: Iterable[Entry], cluster: str = "", explain: bool = True
) -> Iterator[Replay]:
    """Makes recorded plans again, each from the state that all entries before it make: one pass over them for each
    configuration, since a later one may have added nodes.

    entries: from the first one on, in order.   explain: whether they say why; the same is decided.
    """
    configurations = [entry for entry in entries if entry.kind == "configured"]
    wanted = sorted(plan.sequence for plan in plans)
    for count, upto in enumerate([*(entry.sequence for entry in configurations[1:]), float("inf")], 1):
        within = {number for number in wanted if configurations[count - 1].sequence < number < upto}
        if not within:
            continue
        restored, needed = restore((), configurations[:count], cluster, explain=explain), _needed(entries, within)
        for entry in entries:
            again = plan_cycle(restored.core, entry.at)[1] if entry.sequence in needed else {}
            if entry.sequence in within:
                decided = decisive(entry.body)
                yield Replay(entry.sequence, entry.at, decided, decisive(json.loads(json.dumps(again))))
            if entry.sequence >= upto:
                break
            restored.apply(entry)


def _needed(entries: Sequence[Entry], wanted: set[int]) -> set[int]:
    """Numbers of the cycles to plan so that the wanted ones come out as they did: those since something was freed."""
    needed: set[int] = set()
    since: list[int] = []
    for entry in entries:
        if entry.kind in FREEING or (entry.kind == "end" and entry.body["ending"] in FREED_AT_END):
            since.clear()
        if entry.kind in CYCLES:
            since.append(entry.sequence)
            if entry.sequence in wanted:
                needed.update(since)
    return needed


def write_snapshot(entries: Iterable[Entry], path: Path) -> int:
    """The entries as JSON lines, whole or not at all; how many."""
    draft, count = path.with_name(path.name + ".new"), 0
    with naming(path), open(draft, "w", encoding="utf-8", opener=users_file) as file:
        for entry in entries:
            line = {"sequence": entry.sequence, "at": entry.at, "kind": entry.kind, "job": entry.job_id}
            file.write(json.dumps(line | {"body": entry.body}, ensure_ascii=False) + "\n")
            count += 1
    draft.replace(path)
    return count


def read_snapshot(path: Path) -> Iterator[Entry]:
    """Errors: LedgerError naming the line that is no entry."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                found = parse_json(line)
                yield Entry(found["kind"], found["at"], found["job"], found["body"], (), found["sequence"])
            except (ValueError, KeyError, TypeError) as error:
                raise LedgerError(
                    f"{path}, line {number}", f"no entry of a log ({error})", "Give a file of `scheduler snapshot`"
                ) from error
