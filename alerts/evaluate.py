"""Evaluates rules at instants of data time, starting at the watermark, so that a later run makes up for missed ones.

A rule is due at the multiples of its interval. A run evaluates every instant in (watermark, until], where `until` is
the newest fact or now less a delay, whichever is earlier; the first run looks back by each rule's `for`. Instants are
written in chunks, so that a kill costs one chunk. What cannot be evaluated becomes an alert of
`alert-evaluation-failed`.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from alerts import journal
from alerts.journal import Run, Transition
from alerts.rule import Rule
from alerts.rule_files import version_of
from alerts.sources import ENGINE, SOURCES
from alerts.speaking import facts_of
from alerts.state import Alert, Instance, State, changes_nothing, fingerprint, missing_row, step
from alerts.templates import render
from billing.ledger_report import billing_timezone
from warehouse.durations import format_duration, span
from warehouse.errors import LedgerError
from warehouse.leads import ALONE, Leads, check
from warehouse.store import Store, read_sql

DELAY = timedelta(seconds=60)
"""Samples of a minute take so long to be there."""
CATCH_UP = timedelta(days=2)
"""Instants further back than this are skipped, with a note."""
CHUNK = 60
"""Instants that are written together."""
MOST_INSTANCES = 10_000
"""Of one rule; more is a mistake in its query."""
READ_ONLY = {"readonly": 2}
"""A rule's statement changes nothing, whatever it is. 1 would refuse the client's own settings."""
MOST_TOGETHER = 100
"""Values of a rule's own parameter that one query is asked for."""
FACT_DAYS = 35
EVER_DAYS = 20_000
"""Where nothing came in FACT_DAYS: to say since when, and to look at data of the past."""
FAILED, STOPPED = "alert-evaluation-failed", "alert-data-stopped"
"""The rules whose instances are the engine's own: a rule that could not be evaluated, and data that stopped."""

Rows = list[dict[str, Any]]


@dataclass
class Report:
    """The result of an evaluation. until: the new watermark; None: there is no fact yet.   problems: rule -> what
    failed."""

    until: datetime | None = None
    instants: int = 0
    transitions: list[Transition] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


@dataclass
class _Outcome:
    """The result of one rule at one instant. problem: why its rows cannot be used; empty: they can."""

    rows: Rows = field(default_factory=list)
    problem: str = ""


def evaluate(
    store: Store,
    rules: Sequence[Rule],
    now: datetime,
    delay: timedelta = DELAY,
    stop: threading.Event | None = None,
    live: bool = True,
    broken: str = "",
    leads: Leads = ALONE,
) -> Report:
    """Evaluates what is due and writes the states; repeating it at the same time changes nothing.

    Errors: StoreError; NotLeadingError if another server leads by the time of writing.
    """
    last = journal.last_run(store)
    newest = _newest_facts(store, now)
    if not any(at for name, at in newest.items() if name not in ("devices", "ledger")):
        newest = _newest_facts(store, now, EVER_DAYS)
    facts = [at for name, at in newest.items() if at is not None and name != "ledger"]
    until = min(now - delay, max(facts)) if facts else None
    watermark = last[1] if last else None
    report = Report(until=watermark)
    with ExitStack() as stack:
        engine = _Engine(store, rules, now, report, _Queries(store, stack), leads)
        engine.rules_changed = last is not None and last[2] != engine.version
        engine.alerts = journal.active_alerts(store)
        engine.number = last[0] if last else 0
        if until is not None:
            engine.run(watermark, until, stop)
        if live:
            engine.check_freshness(max(facts) if facts else None, broken)
    return report


class _Queries:
    """Runs queries on several connections in parallel."""

    def __init__(self, store: Store, stack: ExitStack) -> None:
        workers = max(1, min(4, os.cpu_count() or 1))
        self._local = threading.local()
        self._store, self._stack, self._lock = store, stack, threading.Lock()
        self._pool = stack.enter_context(ThreadPoolExecutor(workers, "alert-query"))

    def all(self, questions: Iterable[_Question]) -> dict[_Question, dict[str, _Outcome]]:
        asked = list(dict.fromkeys(questions))
        return dict(zip(asked, self._pool.map(self._one, asked), strict=True))

    def _one(self, question: _Question) -> dict[str, _Outcome]:
        problem = ""
        try:
            found = question.ask(self._connection())
        except LedgerError as error:
            problem = str(error)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # of a source's Python
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return {value: _Outcome(problem=problem) for value in question.values}
        return {value: _Outcome(found.get(value, [])) for value in question.values}

    def _connection(self) -> Store:
        if not hasattr(self._local, "store"):
            with self._lock:
                self._local.store = self._store.another()
                self._stack.callback(self._local.store.close)
        own: Store = self._local.store
        return own


class _Engine:
    def __init__(
        self, store: Store, rules: Sequence[Rule], now: datetime, report: Report, queries: _Queries, leads: Leads
    ) -> None:
        self.store, self.now, self.report, self.queries, self.leads = store, now, report, queries, leads
        self.rules = {rule.name: rule for rule in rules}
        self.version = version_of(rules)
        self.zone = billing_timezone(store)
        self.alerts: dict[str, dict[str, Alert]] = {}
        self.number = 0
        self.rules_changed = False
        self.changed: list[Transition] = []
        self.still_firing: dict[tuple[str, str], tuple[Instance, datetime]] = {}
        self.counts = Counter({"evaluations": 0, "failed": 0, "instances": 0})
        self.committed_counts: Counter[str] = Counter()

    def run(self, watermark: datetime | None, until: datetime, stop: threading.Event | None) -> None:
        self.drop_removed_rules(until)
        since = watermark
        if watermark is not None and until - watermark > CATCH_UP:
            since = until - CATCH_UP
            self.report_skipped(watermark, since)
        pending: list[datetime] = []
        for at, due in instants(self.queried(), since, until):
            if stop is not None and stop.is_set():
                break
            self.evaluate_at(at, due)
            pending.append(at)
            if len(pending) == CHUNK:
                self.commit(at)
                pending.clear()
        else:
            if watermark is None or until > watermark or self.changed:
                self.commit(until)
            return
        if pending:
            self.commit(pending[-1])

    def queried(self) -> list[Rule]:
        return [rule for rule in self.rules.values() if rule.source != ENGINE]

    def evaluate_at(self, at: datetime, due: Sequence[Rule]) -> None:
        """Evaluates rules at an instant."""
        newest = _newest_facts(self.store, at) if any(rule.needs for rule in due) else {}
        never = _never_reported(self.store, newest, at)
        for rule in due:
            if not never.isdisjoint(rule.needs):
                self.step_builtin(FAILED, {"rule": rule.name}, False, at, {"problem": "over"})
        due = [rule for rule in due if never.isdisjoint(rule.needs)]
        blind = {rule.name: problem for rule in due if (problem := _missing_data(rule, newest, at, self.zone))}
        asked = _questions([rule for rule in due if rule.name not in blind], at)
        answers = self.queries.all(asked.values())
        for rule in due:
            if rule.name in blind:
                outcome = _Outcome(problem=blind[rule.name])
            else:
                outcome = answers[asked[_key(rule), _batch_value(rule)]][_batch_value(rule)]
            self.counts["evaluations"] += 1
            problem = outcome.problem
            if not problem:
                seen, problem = _instances_of(rule, outcome.rows, self.alerts.get(rule.name, {}))
                if not problem:
                    self.counts["instances"] += len(seen.all)
                    self.step_rule(rule, seen, at)
            if problem:
                self.counts["failed"] += 1
                self.report.problems[rule.name] = problem
            self.step_builtin(FAILED, {"rule": rule.name}, bool(problem), at, {"problem": problem or "over"})
        self.report.instants += 1

    def step_rule(self, rule: Rule, seen: _Instances, at: datetime) -> None:
        for alert in list(self.alerts.get(rule.name, {}).values()):
            if alert.fingerprint not in seen.all:
                self.step_one(rule, missing_row(alert), at)
        for one in seen.changing:
            self.step_one(rule, one, at)
        for one in seen.still_firing:
            self.still_firing[rule.name, one.fingerprint] = one, at

    def step_builtin(
        self, name: str, identity: dict[str, str], holds: bool, at: datetime, evidence: dict[str, Any]
    ) -> None:
        """Steps an instance of a rule that the engine itself evaluates, if that rule is enabled."""
        rule = self.rules.get(name)
        if rule is not None:
            known = self.alerts.get(name, {})
            key = fingerprint(name, identity.items())
            if holds or key in known:
                self.step_one(rule, Instance(key, holds, float(holds), identity, evidence), at)

    def step_one(self, rule: Rule, seen: Instance, at: datetime) -> None:
        states = self.alerts.setdefault(rule.name, {})
        before = states.get(seen.fingerprint)
        after = step(before, seen, rule.name, at, rule.for_, rule.keep_firing_for)
        if after is before or after is None:
            if before is not None and before.state is State.firing and seen.holds:
                self.still_firing[rule.name, seen.fingerprint] = seen, at
            return
        if after.state in (State.pending, State.firing):
            states[seen.fingerprint] = after
        else:
            del states[seen.fingerprint]
        self.changed.append(_transition(rule, after, self.zone))

    def drop_removed_rules(self, at: datetime) -> None:
        """Ends the pending and firing alerts of rules that no longer exist."""
        for name in [name for name in self.alerts if name not in self.rules]:
            for alert in self.alerts.pop(name).values():
                ended = step(alert, missing_row(alert), name, max(at, alert.at), 0, 0)
                if ended is not None:
                    note = {"summary": f"the rule {name} was removed"}
                    self.changed.append(Transition(ended, "info", dict(alert.labels), note))

    def report_skipped(self, since: datetime, until: datetime) -> None:
        lost = f"not evaluated from {since:%F %T}Z to {until:%F %T}Z: further back than {CATCH_UP.days} days"
        self.report.problems["*"] = lost
        self.step_builtin(FAILED, {"rule": "*"}, True, until, {"problem": lost})
        self.step_builtin(FAILED, {"rule": "*"}, False, until + timedelta(milliseconds=1), {"problem": lost})

    def check_freshness(self, newest: datetime | None, broken: str) -> None:
        """Alerts that depend on the clock, not on data: all facts are too old, so that no other rule can be evaluated;
        or the rule files are invalid."""
        before = len(self.changed)
        rule = self.rules.get(STOPPED)
        if rule is not None and newest is not None:  # without any fact, nothing has stopped
            age = (self.now - newest).total_seconds()
            evidence = {"newest": newest, "age_seconds": age}
            self.step_builtin(STOPPED, {"store": "facts"}, bool(rule.holds(age, {})), self.now, evidence)
        self.step_builtin(FAILED, {"rule": "(rule files)"}, bool(broken), self.now, {"problem": broken or "over"})
        if len(self.changed) > before:
            self.commit(self.report.until or journal.NOTHING_YET)

    def commit(self, until: datetime) -> None:
        self.number = max(self.number + 1, int(self.now.timestamp() * 1_000_000))
        counts = {name: count - self.committed_counts[name] for name, count in self.counts.items()}
        run = Run(
            run=self.number,
            started_at=self.now,
            finished_at=datetime.now(UTC),
            evaluated_until=until,
            rules=self.version,
            **counts,
        )
        refreshed = self.refreshed(until)
        check(self.leads)
        journal.write(self.store, run, self.changed, refreshed)
        self.report.transitions += self.changed
        self.report.until = until
        self.changed, self.committed_counts = [], Counter(self.counts)

    def refreshed(self, until: datetime) -> list[Transition]:
        """Alerts that keep firing with new evidence, or with new texts because the rules have changed: a firing alert
        shows the present, not what was true when it began."""
        found = []
        if self.rules_changed:
            for name, of_rule in self.alerts.items():
                for key, alert in of_rule.items():
                    if alert.state is State.firing and alert.at < until and (name, key) not in self.still_firing:
                        found.append(_transition(self.rules[name], replace(alert, at=until), self.zone))
        for (name, key), (seen, at) in self.still_firing.items():
            before = self.alerts.get(name, {}).get(key)
            if before is None or before.state is not State.firing or before.at >= at:
                continue
            now = replace(before, value=seen.value, evidence=seen.evidence)
            if self.rules_changed or not journal.same_evidence(before, now):
                self.alerts[name][key] = now
                found.append(_transition(self.rules[name], replace(now, at=at), self.zone))
        self.still_firing.clear()
        self.rules_changed = False
        return found


def instants(rules: Sequence[Rule], since: datetime | None, until: datetime) -> Iterator[tuple[datetime, list[Rule]]]:
    """The instants in (since, until] at which rules are due, in order, with those rules.

    since: None before the first run; then each rule has the instants of its last `for` before `until`, one at least.
    """
    due: dict[int, list[Rule]] = defaultdict(list)
    end = int(until.timestamp())
    for rule in rules:
        last = end // rule.interval * rule.interval
        first = last - rule.for_ // rule.interval * rule.interval
        if since is not None:
            first = int(since.timestamp()) // rule.interval * rule.interval + rule.interval
        for second in range(first, last + 1, rule.interval):
            due[second].append(rule)
    for second in sorted(due):
        yield datetime.fromtimestamp(second, UTC), due[second]


def _transition(rule: Rule, alert: Alert, zone: str) -> Transition:
    """The alert with its rendered texts; labels without a value are left out."""
    facts = facts_of(rule, alert.labels, alert.value, alert.evidence, alert.at, alert.active_at, zone)
    owner, *texts = render((rule.owner, rule.summary, rule.description, rule.action), facts)
    labels = {"alertname": rule.name, "severity": rule.severity, **rule.tags, **alert.labels, "owner": owner}
    notes = dict(zip(("summary", "description", "action", "runbook"), (*texts, rule.runbook), strict=True))
    if alert.state is State.inactive:
        notes = {}
    return Transition(
        alert,
        rule.severity,
        {name: text for name, text in labels.items() if text},
        {name: text for name, text in notes.items() if text},
    )


@dataclass(frozen=True, eq=False)
class _Question:
    """A query at an instant, for several values of the parameter in which its rules differ (`Rule.batch_parameter`).

    values: '' if there is no such parameter.
    """

    rule: Rule
    at: datetime
    values: tuple[str, ...]

    def ask(self, store: Store) -> dict[str, Rows]:
        """The rows by the value that they are about.

        Errors: LookupError if a row does not say it; StoreError; whatever a source's Python raises.
        """
        rule, bound = self.rule, self.rule.bound()
        if rule.source:
            return {"": SOURCES[rule.source](store, self.at, bound)}
        params = {**bound, "at": self.at, "previous_at": self.at - span(rule.interval)}
        name = rule.batch_parameter
        if not name:
            return {"": store.rows(rule.sql, params, READ_ONLY)}
        found: dict[str, Rows] = {value: [] for value in self.values}
        for row in store.rows(rule.sql, {**params, name: list(self.values)}, READ_ONLY):
            if row.get(name) not in found:
                what = f"{name} says {row.get(name)!r}, which was not asked for"
                raise LookupError(f"the query's column {what}")
            found[row.pop(name)].append(row)
        return found


Key = tuple[str, str]


def _questions(rules: Sequence[Rule], at: datetime) -> dict[tuple[Key, str], _Question]:
    """By key and batch value of the rules: each distinct query once; queries that differ only in that value are
    combined."""
    first: dict[Key, Rule] = {}
    values: dict[Key, dict[str, None]] = defaultdict(dict)
    for rule in rules:
        first.setdefault(_key(rule), rule)
        values[_key(rule)][_batch_value(rule)] = None
    asked: dict[tuple[Key, str], _Question] = {}
    for key, of in values.items():
        every = list(of)
        for number in range(0, len(every), MOST_TOGETHER):
            question = _Question(first[key], at, tuple(every[number : number + MOST_TOGETHER]))
            asked |= {(key, value): question for value in question.values}
    return asked


def _key(rule: Rule) -> Key:
    """Rules with the same key run the same query, except for the value of their batch parameter."""
    return rule.sql or rule.source, repr(sorted(rule.bound().items())) + (
        f"/{rule.interval}" if "{previous_at:" in rule.sql else ""
    )


def _batch_value(rule: Rule) -> str:
    return str(rule.parameters[rule.batch_parameter]) if rule.batch_parameter else ""


@dataclass
class _Instances:
    """The result of a query. all: fingerprints; changing: instances whose state may change; still_firing: those that
    keep firing."""

    all: set[str] = field(default_factory=set)
    changing: list[Instance] = field(default_factory=list)
    still_firing: list[Instance] = field(default_factory=list)


def _instances_of(rule: Rule, rows: Rows, before: Mapping[str, Alert]) -> tuple[_Instances, str]:
    """The query's rows as instances, or why they cannot be."""
    seen = _Instances()
    if len(rows) > MOST_INSTANCES:
        return seen, f"{len(rows)} instances, more than {MOST_INSTANCES}: narrow the query"
    names = (*rule.identity, *rule.labels)
    known = {*names, "value"}
    if rows and (missing := [name for name in (*names, "value") if name not in rows[0]]):
        return seen, f"the query answers no column {', '.join(missing)}"
    plain = not rule.exclude and not rule.overrides
    for row in rows:
        identity = [(name, _text(row[name])) for name in rule.identity]
        labels = {} if plain else {name: _text(row[name]) for name in names}
        if rule.exclude and rule.excluded(labels):
            continue
        value = None if row["value"] is None else float(row["value"])
        key = fingerprint(rule.name, identity)
        if key in seen.all:
            named = ", ".join(f"{name}={text}" for name, text in identity)
            return seen, f"two rows of one identity ({named}): the query must answer one"
        seen.all.add(key)
        holds = rule.holds(value, labels)
        if not changes_nothing(before.get(key), holds):
            labels = {name: _text(row[name]) for name in names}
            evidence = {name: text for name, text in row.items() if name not in known}
            seen.changing.append(Instance(key, holds, value, labels, evidence))
        elif holds:
            evidence = {name: text for name, text in row.items() if name not in known}
            seen.still_firing.append(Instance(key, holds, value, {}, evidence))
    return seen, ""


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _newest_facts(store: Store, at: datetime, days: int = FACT_DAYS) -> dict[str, datetime | None]:
    (row,) = store.rows(read_sql(__file__, "newest_facts"), {"at": at, "days": days})
    return row


def _never_reported(store: Store, newest: Mapping[str, datetime | None], at: datetime) -> frozenset[str]:
    """Kinds of facts that this site never had: rules that need them are skipped, which is not a failure."""
    missing = [table for table, found in newest.items() if found is None]
    if not missing:
        return frozenset()
    (ever,) = store.rows(read_sql(__file__, "facts_ever"), {"at": at})
    return frozenset(table for table in missing if not ever[table])


def _missing_data(rule: Rule, newest: Mapping[str, datetime | None], at: datetime, zone: str) -> str:
    """Kinds of facts that the rule needs and that are missing or too old; scheduler.words translates it."""
    for table, oldest in rule.needs.items():
        found = newest[table]
        if found is None:
            return f"no {table} in {FACT_DAYS} days"
        if at - found > span(oldest):
            since = f"{found.astimezone(ZoneInfo(zone)):%F %H:%M %Z}"
            return f"no {table} since {since}, {format_duration((at - found).total_seconds())} ago"
    return ""
