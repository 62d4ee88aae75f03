"""Which issued months a draft computes again: of drawn books and documents, reckoned month by month."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import billing.invoicing
from billing.periods import Period, parse_month
from tests.billing.test_close_statements import truth
from warehouse.store import Store, read_sql

INVOICING = str(Path(str(billing.invoicing.__file__)))
HOUR, MS = timedelta(hours=1), timedelta(milliseconds=1)
MINIMUM = 4 * HOUR
TENANTS = ("bio", "chem")
OPEN = datetime(2299, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


class World(NamedTuple):
    """What there is. sessions: stretches by cluster and allocation; hours: (run, looked at by) by hour."""

    documents: Sequence[Row]
    hours: Mapping[datetime, tuple[int, int]]
    entries: Sequence[Row]
    sessions: Mapping[tuple[str, str], Sequence[tuple[datetime, datetime]]]
    credits: Sequence[tuple[str, str, str]]
    """Tenant, month, id."""


def whole(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


KINDS = ("documents", "hours", "sessions", "held later", "credits", "holders", "promises")
"""Of changes. A world has those of one kind, else one would hide another."""


def drawn_documents(dice: Random, kind: str, months: Sequence[str]) -> list[Row]:
    """Each tenant has an invoice of each month; not so where it matters."""
    found: list[Row] = []
    for place, month in enumerate(months):
        for tenant in TENANTS:
            lines = []
            for _ in range(dice.choice([0, 1, 2]) if kind in ("documents", "credits") else 0):
                line: Row = {"kind": dice.choice(["credit", "credit", "usage"]), "rule": f"credit:{dice.randint(1, 2)}"}
                about = (
                    {"charge_class": "Correction", "reference": {"month": dice.choice(months[:place])}} if place else {}
                )
                lines.append({**line, "charge_class": None, **(about if truth(dice) else {})})
            is_free = kind == "documents"
            document = {
                "number": f"N{len(found)}", "tenant": tenant, "period": {"month": month}, "lines": lines,
                "document_type": "credit_note" if is_free and truth(dice, 0.2) else "invoice",
                "void": is_free and truth(dice, 0.4), "books_run": str(dice.randint(4, 9)),
                "as_of_run": str(dice.randint(9, 12)),
            }  # fmt: skip
            if kind in ("hours", "sessions", "held later") or truth(dice, 0.7):
                found.append(document)
    return found


def drawn(dice: Random, kind: str, periods: Sequence[Period], months: Sequence[str], reach: int) -> World:
    """About where months begin and end."""
    edges = [at for period in periods for at in (period.start, period.end)]
    hours: dict[datetime, tuple[int, int]] = {}
    sessions: dict[tuple[str, str], list[tuple[datetime, datetime]]] = {}
    entries: list[Row] = []
    for _ in range(2 if kind == "hours" else 0):
        at = whole(dice.choice(edges)) + dice.choice([-reach - 2, -reach - 1, -reach, -1, 0, 1, 90]) * HOUR
        run = dice.randint(3, 9)
        hours[at] = run, max(run, dice.randint(8, 12))
    for number in range(dice.choice([1, 2, 3]) if kind in ("sessions", "held later") else 0):
        key = (dice.choice("cd"), f"a{number}")
        end = dice.choice(edges) + dice.choice([0 * MS, 0 * MS, MS, -MS, 9 * HOUR])
        length = dice.choice([MINIMUM, MINIMUM - MS, MINIMUM - MS, HOUR])
        sessions[key] = [(end - length, end)]
        if kind == "sessions" and truth(dice, 0.7):  # it went on, after a pause or at once
            again = end + dice.choice([0 * MS, HOUR, HOUR])
            sessions[key].append((again, dice.choice([OPEN, again + HOUR, again + 800 * HOUR])))
        if kind == "held later":  # by some close
            until = end + dice.choice([0 * MS, MS, HOUR, 3 * HOUR])
            hour = whole(until)
            run = dice.choice([1, 1, 1, 2])
            entries.append({"tenant": "", "cluster": dice.choice([key[0], key[0], "d"]), "allocation_id": key[1],
                            "hour": hour, "run": run, "start": until - MS, "end": until})  # fmt: skip
            if truth(dice):
                entries.append({**entries[-1], "end": end, "start": end - MS, "hour": whole(end)})
            hours.setdefault(hour, (2, 3))
    for _ in range(3 if kind == "holders" else 0):
        at = dice.choice(edges) + dice.choice([0 * MS, -MS, 30 * HOUR])
        hours.setdefault(whole(at), (2, 3))
        entries.append({"tenant": dice.choice([*TENANTS, ""]), "cluster": "c", "hour": whole(at),
                        "allocation_id": dice.choice(["z", "z", ""]), "run": dice.choice([1, 2, 2]), "start": at,
                        "end": at + MS})  # fmt: skip
    credits = {(dice.choice(TENANTS), dice.choice(months), str(dice.randint(1, 2))) for _ in range(3)}
    documents = drawn_documents(dice, kind, months)
    return World(documents, hours, entries, sessions, sorted(credits) if kind == "credits" else [])


def fill(store: Store, world: World, periods: Sequence[Period], months: Sequence[str]) -> None:
    for table in ("invoices", "voided_invoices", "closed_hours", "ledger_entries", "allocations", "credits"):
        store.command(f"TRUNCATE TABLE {store.altered(table)}")

    def insert(table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            cells = ", ".join(f"({', '.join(literal(one) for one in row)})" for row in rows)
            store.command(f"INSERT INTO {table} ({columns}) VALUES {cells}")

    span = dict(zip(months, periods, strict=True))
    insert("invoices", "number, issuer, year, sequence, tenant, period_start, period_end, document", [
        (one["number"], one["number"], 2026, 1, one["tenant"], span[one["period"]["month"]].start,
         span[one["period"]["month"]].end, json.dumps({**one, "void": None}))
        for one in world.documents
    ])  # fmt: skip
    insert("voided_invoices", "number", [(one["number"],) for one in world.documents if one["void"]])
    hours = [(int(at.timestamp()), *runs, 1) for at, runs in world.hours.items()]
    insert("closed_hours", "hour, run, checked_by, inputs", hours)
    insert("ledger_entries", "run, hour, cluster, allocation_id, tenant, charge_period_start, charge_period_end", [
        (one["run"], int(one["hour"].timestamp()), one["cluster"], one["allocation_id"], one["tenant"], one["start"],
         one["end"]) for one in world.entries
    ])  # fmt: skip
    insert("allocations", "cluster, allocation_id, start_at, end_at", [
        (*key, start, None if end == OPEN else end) for key, some in world.sessions.items() for start, end in some
    ])  # fmt: skip
    insert("credits", "tenant, month, id", world.credits)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"'{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}'"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)


def changed(
    world: World, periods: Sequence[Period], months: Sequence[str], before: datetime, zone: str, reach: int,
    by_length: bool, promises: Sequence[tuple[str, str, str]],
) -> list[Period]:  # fmt: skip
    """The months."""
    stands = [one for one in world.documents if not one["void"] and one["document_type"] != "credit_note"]
    billed, credited = set(), set()
    for one in stands:
        billed.add((one["tenant"], one["period"]["month"]))
        for line in one["lines"]:
            is_correction = line["charge_class"] == "Correction"
            billed.add((one["tenant"], line["reference"]["month"] if is_correction else one["period"]["month"]))
            if line["kind"] == "credit":
                credited.add((one["tenant"], line["rule"]))
    held = {(one["tenant"], f"{one['start'].astimezone(ZoneInfo(zone)):%Y-%m}") for one in world.entries
            if one["tenant"] and one["allocation_id"]
            and world.hours.get(one["hour"], (0, 0))[0] == one["run"]}  # fmt: skip
    void = {(one["tenant"], one["period"]["month"]) for one in world.documents
            if one["void"] and one["document_type"] != "credit_note"}  # fmt: skip
    documents = {month: [one for one in world.documents if one["period"]["month"] == month] for month in months}
    issued = [(month, period) for month, period in zip(months, periods, strict=True)
              if documents[month] and period.end <= before and any(month == name for _, name in billed)]  # fmt: skip
    held_by = defaultdict(list)
    for one in world.entries:
        # What was held before the first of them ended is in an hour of theirs, which was computed again if it is gone.
        is_later = any(one["hour"] >= whole(period.end - HOUR) for _, period in issued)
        if is_later and world.hours.get(one["hour"], (0, 0))[0] != one["run"]:
            held_by[one["cluster"], one["allocation_id"]].append(one["end"])
    found = []
    for month, period in issued:
        own = documents[month]
        first, as_of = (min(int(one[name]) for one in own) for name in ("books_run", "as_of_run"))
        reasons = [
            any(
                (run > first or (by_length and by > as_of)) and period.start - (reach + 1) * HOUR < at < period.end
                for at, (run, by) in world.hours.items()
            ),
            any(name == month and (tenant, f"credit:{number}") not in credited
                for tenant, name, number in world.credits),
            any((tenant, month) in held | void and (tenant, month) not in billed for tenant in TENANTS),
            any(since <= month and (not until or month < until) and (tenant, month) not in billed
                for tenant, since, until in promises),
            any(is_otherwise(some, period, held_by[key]) for key, some in world.sessions.items()),
        ]  # fmt: skip
        if any(reasons):
            found.append(period)
    return found


def is_otherwise(stretches: Sequence[tuple[datetime, datetime]], month: Period, held_until: Sequence[datetime]) -> bool:
    """Whether a session may owe the month another minimum than was billed."""
    begins, ends = min(start for start, _ in stretches), max(end for _, end in stretches)
    is_short = ends - begins < MINIMUM
    if any(end - start < MINIMUM for start, end in stretches):
        if is_short and ends == month.end:
            return True
        if is_short and month.start < ends <= month.end and any(until > ends for until in held_until):
            return True
        is_paused = not any(start < month.end < end for start, end in stretches) and begins < month.end < ends
        return is_paused and any(month.start < end <= month.end and end - begins < MINIMUM for _, end in stretches)
    return False


def test_a_month_is_computed_again_if_it_may_owe_something_else_than_was_billed(books: Store, dice: Random) -> None:
    sql = read_sql(INVOICING, "changed_months")
    for kind in (*KINDS * 2, *("hours", "sessions", "held later") * 3):
        zone = dice.choice(["UTC", "Asia/Kolkata", "Europe/Berlin"])
        months = ["2026-07", "2026-08", "2026-09"]
        periods = [parse_month(month, zone) for month in months]
        reach, by_length, before = dice.choice([0, 5]), truth(dice), periods[dice.choice([1, 2, 2])].end
        promises = [(dice.choice(TENANTS), dice.choice(["", *months]), dice.choice(["", *months]))
                    for _ in range(2 if kind == "promises" else 0)]  # fmt: skip
        world = drawn(dice, kind, periods, months, reach)
        fill(books, world, periods, months)
        params = {
            "before": before, "timezone": zone, "reach_hours": reach, "by_length": int(by_length),
            "minimum_ms": MINIMUM // MS, "committed": [one[0] for one in promises],
            "since": [one[1] for one in promises], "until": [one[2] for one in promises],
        }  # fmt: skip
        found = [Period(row["start"], row["end"]) for row in books.rows(sql, params)]
        assert found == changed(world, periods, months, before, zone, reach, by_length, promises), (kind, world)
