"""`python -m bench.alerting`: precision and recall of the shipped rules on the simulated fleet, and on a clean one.

The engine evaluates the rules as shipped, on a grid of `--every`, on the fleet's facts; `bench.alert_truth` says what
the simulator knows. An alert is expected, and found, from when it begins to fire until it no longer does; one that is
found counts as right if it is expected at some of the same instants. Instants that differ are counted beside it.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.table import Table

from alerts.evaluate import evaluate
from alerts.journal import Transition
from alerts.rule import Rule
from alerts.rule_files import load_rules
from bench.alert_truth import EXPECTED, QUOTAS, UNDECIDED, Identity, Verdict, World
from collectors.simulated import FleetPlan, simulate, trouble_tables
from collectors.simulated.fleet import build
from collectors.tables import Records
from ingest.pipeline import ingest_tables
from warehouse.durations import parse_duration
from warehouse.instants import epoch_ms
from warehouse.store import Store, migrate, open_store

REACH = timedelta(hours=26)
"""Samples and metrics so far back are looked at by rules."""


@dataclass
class Score:
    """expected, found, right: alerts. instants: of any instance that was expected or found; differ: of them;
    undecided: instants of an instance of which nobody could know.   wrong: examples."""

    expected: int = 0
    found: int = 0
    right: int = 0
    met: int = 0
    instants: int = 0
    differ: int = 0
    undecided: int = 0
    wrong: tuple[str, ...] = ()

    def __add__(self, other: Score) -> Score:
        both = {name: value + getattr(other, name) for name, value in asdict(self).items() if name != "wrong"}
        return Score(**both, wrong=(*self.wrong, *other.wrong)[:20])

    @property
    def precision(self) -> float | None:
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        return self.met / self.expected if self.expected else None

    @property
    def exact(self) -> bool:
        return self.right == self.found and self.met == self.expected


def judged_rules(every_seconds: int, only: Sequence[str] = ()) -> list[Rule]:
    """The shipped rules of which the simulator knows the truth, no more often than on the grid."""
    rules = []
    for rule in load_rules():
        if rule.name in (only or EXPECTED):
            quotas = {"parameters": {**rule.parameters, "quotas": QUOTAS}} if rule.query == "quota.sql" else {}
            rules.append(rule.model_copy(update={"interval": max(every_seconds, rule.interval), **quotas}))
    return rules


def fill(store: Store, plan: FleetPlan, first: datetime, last: datetime) -> None:
    """All devices and events of a plan; its samples, metrics and findings from shortly before `first` to `last`."""
    since = first - REACH

    def within(records: Records) -> Records:
        for record, table in records:
            if record.name not in ("devices", "events"):
                table = table.filter(pc.and_(pc.greater(table["ts"], since), pc.less_equal(table["ts"], last)))
            if table.num_rows:
                yield record, table

    every = chain(within(simulate(plan)), within(trouble_tables(plan, build(plan))))
    for _, group in groupby(every, key=lambda pair: pair[0].name):
        record, first_table = next(group)
        tables = chain([first_table], (table for _, table in group))  # noqa: B031 (one iterator)
        ingest_tables(store, record, "simulated", tables)


def look(store: Store, rules: Sequence[Rule], first: datetime, last: datetime) -> list[Transition]:
    """The engine's transitions from one instant to another."""
    changed: list[Transition] = []
    now = first
    while True:
        report = evaluate(store, rules, now, delay=timedelta(0), live=False)
        if report.problems:
            raise RuntimeError(f"{now}: {report.problems}")
        changed += report.transitions
        if now >= last:
            return changed
        now = min(last, now + timedelta(days=1))


def judge(
    plan: FleetPlan, rules: Sequence[Rule], changed: Sequence[Transition], first: datetime, last: datetime
) -> dict[str, Score]:
    """By rule: what the engine found beside what the simulator knows, from one instant to another."""
    world = World(plan)
    found = _firing(rules, changed, epoch_ms(last))
    return {rule.name: _score(rule, world, found[rule.name], epoch_ms(first), epoch_ms(last)) for rule in rules}


Spans = dict[Identity, list[tuple[int, int]]]


def _firing(rules: Sequence[Rule], changed: Sequence[Transition], end: int) -> dict[str, Spans]:
    """By rule and identity: [begin, end) ms of firing."""
    found: dict[str, Spans] = {rule.name: defaultdict(list) for rule in rules}
    identities = {rule.name: rule.identity for rule in rules}
    open_at: dict[tuple[str, Identity], int] = {}
    for one in changed:
        alert = one.alert
        if alert.rule in found:
            identity = tuple(alert.labels.get(name, "") for name in identities[alert.rule])
            if alert.state == "firing":
                open_at.setdefault((alert.rule, identity), epoch_ms(alert.at))
            elif alert.state == "resolved":
                found[alert.rule][identity].append((open_at.pop((alert.rule, identity)), epoch_ms(alert.at)))
    for (name, identity), begin in open_at.items():
        found[name][identity].append((begin, end + 1))
    return found


def _score(rule: Rule, world: World, found: Spans, first: int, last: int) -> Score:
    grid = rule.interval * 1000
    begin = first // grid * grid - rule.for_ * 1000 // grid * grid
    instants = list(range(begin, last + 1, grid))
    reported = [EXPECTED[rule.name](world, rule, at) for at in instants]
    score, wrong = Score(), []
    for identity in {identity for verdicts in reported for identity in verdicts} | set(found):
        expected = list(_states([v.get(identity, False) for v in reported], rule, grid))
        actual = [any(start <= at < end for start, end in found.get(identity, [])) for at in instants]
        pairs = list(zip(instants, expected, actual, strict=True))
        for at, want, got in pairs:
            score.undecided += want is None
            score.instants += want is not None and (want or got)
            if want is not None and want != got:
                score.differ += 1
                if len(wrong) < 5:
                    stamp = datetime.fromtimestamp(at / 1000, UTC)
                    wrong.append(f"{stamp:%d %H:%M} {' '.join(identity)}: {'missed' if want else 'not expected'}")
        for run in _runs([got for _, _, got in pairs]):
            wanted = {expected[place] for place in run}
            if wanted != {None}:
                score.found += 1
                score.right += True in wanted
        for run in _runs([want is True for _, want, _ in pairs]):
            score.expected += 1
            score.met += any(actual[place] for place in run)
    score.wrong = tuple(wrong)
    return score


def _states(verdicts: Sequence[Verdict], rule: Rule, grid: int) -> Iterator[bool | None]:
    """Whether it fires at each instant by `for` and `keep_firing_for`; None: what nobody could know makes it open."""
    since: int | None = None
    quiet: int | None = None
    firing, sure = False, True
    for place, verdict in enumerate(verdicts):
        now = place * grid
        if verdict == UNDECIDED:
            sure = False
        elif verdict is True:
            if since is None or not sure:
                since, sure = (now if sure else since), sure or rule.for_ == 0
            since = now if since is None else since
            quiet = None
            if now - since >= rule.for_ * 1000:
                firing, sure = True, True
        elif verdict is False:
            if firing or not sure:
                quiet = now if quiet is None else quiet
                if now - quiet >= rule.keep_firing_for * 1000:
                    firing, since, quiet, sure = False, None, None, True
            else:
                since = None
        yield firing if sure else None


def _runs(flags: Sequence[bool]) -> Iterator[range]:
    for flag, group in groupby(range(len(flags)), key=lambda place: flags[place]):
        if flag:
            places = list(group)
            yield range(places[0], places[-1] + 1)


def segment(
    plan: FleetPlan, first: datetime, last: datetime, every_seconds: int, only: Sequence[str], folder: str
) -> dict[str, Score]:
    """One stretch of the plan in a store of its own; a process does one at a time."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-", dir=folder or None) as name:
        rules = judged_rules(every_seconds, only)
        with open_store(f"chdb://{name}/store") as store:
            migrate(store)
            fill(store, plan, first, last)
            changed = look(store, rules, first, last)
    return judge(plan, rules, changed, first, last)


def main(
    days: Annotated[int, typer.Option(min=2, help="Days of the fleet; the first is not judged.")] = 31,
    scale: Annotated[float, typer.Option(help="1: about 100 GPUs.")] = 1.0,
    every: Annotated[str, typer.Option(help="Grid on which rules are evaluated, at least their own interval.")] = "15m",
    clean: Annotated[bool, typer.Option("--clean", help="A fleet without trouble: nothing may fire.")] = False,
    only: Annotated[list[str], typer.Option("--rule", help="Of this rule alone; may be given again.")] = [],  # noqa: B006
    seed: Annotated[int, typer.Option()] = 7,
    processes: Annotated[int, typer.Option(min=1)] = 2,
    part_days: Annotated[int, typer.Option(min=1, help="Days that one store holds.")] = 4,
    directory: Annotated[Path | None, typer.Option("--dir", help="Where scratch folders are made.")] = None,
) -> None:
    """Precision and recall of each shipped rule. Exit 1: one is below 1."""
    plan = FleetPlan(seed=seed, days=days, scale=scale, clean=clean)
    until = plan.start + timedelta(days=days)
    starts = [plan.start + timedelta(days=n) for n in range(1, days, part_days)]
    scores: dict[str, Score] = defaultdict(Score)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        grid = int(parse_duration(every))
        asked = [
            pool.submit(segment, plan, at, min(until, at + timedelta(days=part_days)), grid, only, str(directory or ""))
            for at in starts
        ]
        for number, task in enumerate(asked, 1):
            for name, score in task.result().items():
                scores[name] += score
            print(f"{number} of {len(asked)} parts", file=sys.stderr, flush=True)
    print_scores(scores)
    sys.exit(0 if all(score.exact for score in scores.values()) else 1)


def print_scores(scores: dict[str, Score]) -> None:
    columns = ("expected", "found", "precision", "recall", "instants", "differ", "undecided")
    table = Table("rule", *columns)
    for name, score in sorted(scores.items()):
        table.add_row(name, *(_shown(getattr(score, column)) for column in columns))
    console = Console(width=120, highlight=False)
    console.print(table)
    for name, score in sorted(scores.items()):
        for line in score.wrong:
            console.print(f"{name}: {line}", markup=False)


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    typer.run(main)
