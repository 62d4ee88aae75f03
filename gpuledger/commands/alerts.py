"""`gpuledger alerts`: evaluate rules, list firing alerts, silence them, show their history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store, refuse_served
from gpuledger.output import ROWS, print_json, print_rows, say
from warehouse.errors import LedgerError
from warehouse.printable import grouped
from warehouse.store import Store

if TYPE_CHECKING:
    from alerts.evaluate import Report
    from alerts.routing import Silence
    from gpuledger import documents

alerts = typer.Typer(no_args_is_help=True)
silence = typer.Typer(no_args_is_help=True)

ALERT_COLUMNS = (
    "state", "severity", "rule", "summary", "owner", "active_at", "fired_at", "resolved_at", "value", "fingerprint",
    "held_back", "action", "description", "runbook", "labels", "evidence",
)  # fmt: skip
RULE_COLUMNS = (
    "rule", "severity", "condition", "for", "interval", "category", "owner", "reads", "identity", "summary",
)  # fmt: skip
SILENCE_COLUMNS = ("id", "matchers", "starts_at", "ends_at", "author", "reason")
HISTORY_COLUMNS = ("at", "state", "severity", "rule", "summary", "value", "active_at", "fingerprint", "labels")
DELIVERY_COLUMNS = (
    "at", "target", "kind", "outcome", "attempt", "rule", "fingerprint", "active_at", "next_attempt_at", "detail",
)  # fmt: skip


class RuleFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    prometheus = "prometheus"


At = Annotated[
    str,
    typer.Option(
        "--at",
        help="Evaluate up to this instant instead of now, like 2026-10-05T12:00Z; later states that are there stay.",
    ),
]
RuleName = Annotated[str, typer.Option("--rule", help="Only this rule.")]
Fingerprint = Annotated[str, typer.Option("--fingerprint", help="Only this alert.")]
ALL = 2**32 - 1
Most = Annotated[int, typer.Option("--limit", min=0, max=1_000_000, help="At most this many, newest first; 0: all.")]


def register(app: typer.Typer) -> None:
    alerts.add_typer(silence, name="silence", help="Silence alerts for a time.")
    app.add_typer(alerts, name="alerts", help="Evaluate rules, list firing alerts, silence them, show their history.")


@alerts.command("check")
def check(
    store: options.Store = "",
    rules: options.Rules = None,
    routing: options.Routing = None,
    at: At = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Evaluate due rules, send notifications, list firing alerts; exit 1 if there are any."""
    from alerts.deliver import deliver
    from alerts.evaluate import DELAY, evaluate
    from alerts.reading import alerts as current
    from alerts.routing import load_routing
    from alerts.rule_files import load_rules
    from alerts.slo.measure import measure

    refuse_served(store, "and evaluates its rules by itself", "alerts list shows what fires there")
    now = options.parse_instant("--at", at) if at else datetime.now(UTC)
    loaded = load_rules(rules)
    route = load_routing(routing) if routing else None
    with opened_store(store) as opened:
        measure(opened, now - DELAY, now)
        report = evaluate(opened, loaded, now, live=not at)
        outcomes = deliver(opened, route, now, rules=rules) if route else []
        found = current(opened, now, route)
    _print_alerts(found, fmt)
    _say_report(report, len(loaded))
    for target in sorted({one.delivery.target for one in outcomes}):
        of_target = [one for one in outcomes if one.delivery.target == target]
        sent = sum(one.outcome == "sent" for one in of_target)
        why = next((one.detail for one in of_target if one.outcome != "sent"), "")
        say(f"{target}: {sent} of {len(of_target)} sent" + (f"; {why}" if why else ""))
    if any(row["state"] == "firing" for row in found):
        raise typer.Exit(1)


@alerts.command("list")
def list_(
    store: options.Store = "",
    rule: RuleName = "",
    resolved: Annotated[bool, typer.Option("--resolved", help="Include those that are over.")] = False,
    routing: options.Routing = None,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Firing and pending alerts as of the last evaluation, most severe first."""
    from alerts.reading import CURRENT
    from alerts.reading import alerts as current
    from alerts.routing import load_routing

    states = (*CURRENT, "resolved") if resolved else CURRENT
    with opened_store(store) as opened:
        route = load_routing(routing) if routing else None
        found = current(opened, datetime.now(UTC), route, states, rule)
        evaluated = _last_run(opened)
    _print_alerts(found, fmt)
    say(f"evaluated until {evaluated:%F %T}Z" if evaluated else "never evaluated. Next: gpuledger alerts check")


@alerts.command("rules")
def rules_(
    rules: options.Rules = None,
    fmt: Annotated[RuleFormat, typer.Option("--format", help="How to print them.")] = RuleFormat.table,
) -> None:
    """The active rules; with --format prometheus, those that Prometheus can evaluate."""
    from alerts.prometheus import rule_file
    from alerts.rule_files import load_rules

    loaded = load_rules(rules)
    if fmt is RuleFormat.prometheus:
        typer.echo(rule_file(loaded), nl=False)
        return
    if fmt is RuleFormat.json:
        print_json([rule.model_dump(mode="json", by_alias=True, exclude={"sql"}) for rule in loaded])
        return
    rows = [
        {
            "rule": rule.name,
            "severity": rule.severity,
            "condition": rule.condition_text(),
            "for": _duration_text(rule.for_),
            "interval": _duration_text(rule.interval),
            "category": rule.tags.get("category", ""),
            "owner": rule.owner,
            "reads": rule.query or rule.source,
            "identity": " ".join(rule.identity),
            "summary": rule.summary,
        }
        for rule in loaded
    ]
    shown = (
        ("rule", "severity", "condition", "for", "interval", "category") if fmt is RuleFormat.table else RULE_COLUMNS
    )
    print_rows(rows, shown, options.Format(fmt.value), grouped(len(rows), "rule"))


@alerts.command("history")
def history(
    store: options.Store = "",
    rule: RuleName = "",
    fingerprint: Fingerprint = "",
    deliveries: Annotated[bool, typer.Option("--deliveries", help="Notifications instead of state changes.")] = False,
    limit: Most = ROWS,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Changes of alerts' states, or notifications, newest first."""
    from alerts import reading

    with opened_store(store) as opened:
        found = (reading.attempts if deliveries else reading.history)(
            opened, rule, fingerprint, limit + 1 if limit else ALL
        )
    if limit and len(found) > limit:
        found = found[:limit]
        say(f"the newest {limit:,}; --limit 0 shows all")
    if deliveries:
        print_rows(found, DELIVERY_COLUMNS, fmt)
        return
    rows = [_flat(row) for row in found]
    if fmt is options.Format.table:
        print_rows(rows, ("at", "state", "severity", "rule", "summary", "fingerprint"), fmt)
    else:
        print_rows([_texts(row, fmt) for row in rows], HISTORY_COLUMNS, fmt)


@silence.command("add")
def silence_add(
    matchers: Annotated[
        list[str], typer.Argument(help="LABEL=GLOB, all of which must match, like alertname=long-queue.")
    ],
    reason: options.Reason,
    for_: Annotated[str, typer.Option("--for", help="How long from its start, like 2h.")] = "",
    until: Annotated[str, typer.Option("--until", help="Its end, like 2026-10-05T12:00Z.")] = "",
    start: Annotated[str, typer.Option("--from", help="Its start.", show_default="now")] = "",
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """Silence alerts with matching labels; they keep firing without notifications."""
    from alerts.silences import add_silence

    now = datetime.now(UTC)
    starts_at = options.parse_instant("--from", start) if start else now
    if bool(for_) == bool(until):
        raise LedgerError("--for, --until", "give one of them", "A silence has an end")
    ends_at = options.parse_instant("--until", until) if until else starts_at + _duration("--for", for_)
    named: dict[str, str] = {}
    for text in matchers:
        label, equals, glob = text.partition("=")
        if not equals or not label:
            raise LedgerError(text, "not a matcher", "Write LABEL=GLOB, like tenant=physics or node='n1*'")
        if label in named:
            raise LedgerError(text, f"is the second matcher of {label}", "Add a silence for each value")
        named[label] = glob
    added: Silence | documents.Silence
    with open_books(store, author) as books:
        if books.server:
            globs = {label: [glob] for label, glob in named.items()}
            added = books.server.add_silence(globs, ends_at, reason, starts_at)
        else:
            added = add_silence(books.store, named, ends_at, books.author, reason, now, starts_at)
    say(f"silence {added.id}: {_matchers(added.matchers)} until {added.ends_at:%F %T}Z")


@silence.command("list")
def silence_list(
    store: options.Store = "",
    past: Annotated[bool, typer.Option("--past", help="Include those that are over.")] = False,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Active and scheduled silences."""
    from alerts.silences import silences

    with opened_store(store) as opened:
        found = silences(opened, datetime.now(UTC), past)
    shown = dict if fmt is options.Format.json else _matchers
    rows = [{**vars(one), "matchers": shown(one.matchers)} for one in found]
    print_rows(rows, SILENCE_COLUMNS, fmt)


@silence.command("end")
def silence_end(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="Its id, as listed.")],
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """End a silence now."""
    from alerts.silences import end_silence

    ended: Silence | documents.Silence
    with open_books(store, author) as books:
        if books.server:
            ended = books.server.end_silence(identifier)
        else:
            ended = end_silence(books.store, identifier, books.author, books.now)
    say(f"silence {ended.id} is over: {_matchers(ended.matchers)}")


def _duration(option: str, text: str) -> timedelta:
    from warehouse.durations import seconds_of

    try:
        return timedelta(seconds=seconds_of(text))
    except (ValueError, OverflowError):
        raise LedgerError(option, f"{text!r} is not a duration", "Write it like 90s, 15m, 1h30m or 2d") from None


def _last_run(store: Store) -> datetime | None:
    from alerts.journal import last_run

    last = last_run(store)
    return last[1] if last else None


def _duration_text(seconds: int) -> str:
    from warehouse.durations import write_duration

    return write_duration(seconds)


def _matchers(matchers: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{label}={'|'.join(globs)}" for label, globs in matchers.items())


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **row["annotations"], "owner": row["labels"].get("owner")}


def _texts(row: dict[str, Any], fmt: options.Format) -> dict[str, Any]:
    """A row with labels as text for CSV; unchanged for JSON."""
    if fmt is options.Format.json:
        return row
    import json

    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value for name, value in row.items()
    }


def _print_alerts(found: list[dict[str, Any]], fmt: options.Format) -> None:
    rows = [_flat(row) for row in found]
    if fmt is options.Format.table:
        shown = ("state", "severity", "rule", "summary", "owner", "active_at", "held_back")
        if rows:
            print_rows(rows, shown, fmt)
        else:
            say("nothing fires")
        return
    print_rows([_texts(row, fmt) for row in rows], ALERT_COLUMNS, fmt)


def _say_report(report: Report, rules: int) -> None:
    if report.until is None:
        say("there is no fact yet, so nothing could be evaluated. Next: gpuledger ingest")
        return
    evaluated = f"{grouped(rules, 'rule')}, {grouped(report.instants, 'instant')}"
    say(f"{evaluated}, evaluated until {report.until:%F %T}Z (time of the data)")
    for name, problem in report.problems.items():
        say(f"rule {name} could not be evaluated: {problem}")
