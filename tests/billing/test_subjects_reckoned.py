"""Who held something that prices or a mapping tell apart, and what was billed of it: of a drawn ledger, reckoned."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from billing.rates.staging import subject_keys
from tests.billing.test_close_statements import truth
from tests.billing.test_reckoned import END, OCTOBER, START, Entry, asked, entry, fill, times
from warehouse.instants import of_epoch_ms
from warehouse.store import Store

TENANTS = ("chem", "bio", "phys")
OTHERS = {"2026-09": (START - 30 * 86_400_000, START), "2026-10": (START, END), "2026-11": (END, END + 30 * 86_400_000)}
"""Months as documents have them."""


@pytest.fixture
def entries(books: Store, dice: Random) -> list[Entry]:
    found = [entry(dice) for _ in range(150)]
    fill(books, found)
    return found


def subject(
    one: Entry, by_queue: bool, by_preemptible: bool, by_cluster: bool, bounds: Iterable[int]
) -> tuple[Any, ...]:
    """As far as prices tell it apart."""
    bounds = list(bounds)
    known = one["priority"] is not None and bounds
    level = 1 + sum(bound <= one["priority"] for bound in bounds) if known else 0
    place = (one["model"], one["pool"], one["partition_profile"], one["tenant"])
    keys = one["queue"] if by_queue else "", level, int(one["preemptible"] and by_preemptible)
    return (*place, *keys, one["cluster"] if by_cluster else "")


NAMES = ("model", "pool", "partition_profile", "tenant", "queue", "priority_level", "preemptible", "cluster")


def least(values: Iterable[int | None]) -> int | None:
    return min((one for one in values if one is not None), default=None)


def test_subjects_are_distinguished_as_far_as_the_card_needs(books: Store, dice: Random, entries: list[Entry]) -> None:
    for by_queue, by_preemptible, bounds in ((True, True, [0, 5]), (False, True, []), (truth(dice), False, [3])):
        by_cluster = truth(dice)
        flags = {"by_queue": by_queue, "by_preemptible": by_preemptible, "by_cluster": by_cluster}
        kept = {**{name: int(flag) for name, flag in flags.items()}, "priority_bounds": bounds}
        expected: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
        for one in entries:
            if one["allocation_id"] and START <= one["start"] < END:
                expected[subject(one, by_queue, by_preemptible, by_cluster, bounds)].append(one)
        rows = asked(books, "rates/held_subjects", {"keys": subject_keys("ledger")}, **kept)
        found = {tuple(row[name] for name in NAMES): (row["priority"], row["first"]) for row in rows}
        assert len(found) == len(rows)
        assert found == {
            key: (least(one["priority"] for one in some), of_epoch_ms(min(one["start"] for one in some)))
            for key, some in expected.items()
        }


def bill(store: Store, dice: Random) -> list[dict[str, Any]]:
    """Documents of three months, some of them void, with corrections of months before; none of some tenants."""
    found = []
    months = list(OTHERS)
    for number in range(12):
        place = dice.randrange(3)
        about = [{"charge_class": "Correction", "reference": {"month": dice.choice(months[:place])}}] if place else []
        lines = [{"charge_class": None, "reference": {"month": months[0]}}, *(about if truth(dice) else [])]
        found.append({"number": f"N{number:02}", "tenant": dice.choice(TENANTS), "month": months[place], "lines": lines,
                      "void": truth(dice, 0.3)})  # fmt: skip
    store.insert("invoices", pa.table({
        "number": [one["number"] for one in found], "issuer": [one["number"] for one in found],
        "year": pa.array([2026] * len(found), pa.uint16()), "sequence": pa.array([1] * len(found), pa.uint32()),
        "tenant": [one["tenant"] for one in found], "currency": ["EUR"] * len(found), "total": ["0"] * len(found),
        "period_start": times(OTHERS[one["month"]][0] for one in found),
        "period_end": times(OTHERS[one["month"]][1] for one in found), "issued_at": times(END for _ in found),
        "document": [json.dumps({"period": {"month": one["month"]}, "lines": one["lines"]}) for one in found],
    }))  # fmt: skip
    void = [one["number"] for one in found if one["void"]]
    if void:
        store.insert("voided_invoices", pa.table({
            "number": void, "at": times(END for _ in void), "author": ["" for _ in void], "reason": ["" for _ in void],
        }))  # fmt: skip
    return found


def test_what_a_mapping_could_change_of_issued_months_lasts_within_them(books: Store, dice: Random) -> None:
    documents = bill(books, dice)
    held = []
    for number in range(40):
        start = dice.choice([START, END, START - 1, END - 1, dice.randint(START - 10**9, END + 10**9)])
        held.append({
            "claim": number, "cluster": dice.choice("cd"), "source": dice.choice(["slurm", "k8s"]),
            "reported_tenant": dice.choice("xy"), "reported_project": "p", "queue": dice.choice("vw"),
            "workload_id": dice.choice(["a1", "a2", "b"]), "start": start,
            "end": dice.choice([None, start + 1, START, START + 1, END, END + 1, start + 10**9]),
        })  # fmt: skip
    names = ("cluster", "source", "reported_tenant", "reported_project", "queue", "workload_id")
    books.insert("allocations", pa.table({
        **{name: [one[name] for one in held] for name in names}, "claim": pa.array(range(len(held)), pa.uint64()),
        "start_at": times(one["start"] for one in held),
        "end_at": pa.array([one["end"] for one in held], pa.timestamp("ms", "UTC")),
    }))  # fmt: skip
    patterns = ["^a", "2$"]
    expected: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for month in {one["month"] for one in documents if not one["void"]}:
        first, last = OTHERS[month]
        for one in held:
            end = last if one["end"] is None else one["end"]
            if one["start"] < last and end > first:
                which = "".join(str(int(bool(re.search(pattern, one["workload_id"])))) for pattern in patterns)
                own = (one["reported_tenant"], "p", one["queue"], one["cluster"], one["source"], which)
                expected[(*own, of_epoch_ms(first), of_epoch_ms(last))].append(
                    (max(one["start"], first), min(end, last))
                )
    rows = asked(books, "tenants/invoiced_combinations", workload_patterns=patterns)
    found = {tuple(row.values())[:8]: (row["first"], row["last"]) for row in rows}
    assert len(found) == len(rows)
    assert found == {
        key: (of_epoch_ms(min(first for first, _ in some)), of_epoch_ms(max(last for _, last in some)))
        for key, some in expected.items()
    }
    numbers: dict[Any, str] = {}
    for one in documents:
        if not one["void"]:
            numbers.setdefault((OTHERS[one["month"]][0], one["tenant"]), one["number"])
    rows = asked(books, "tenants/invoiced_tenants")
    assert {(row["period_start"], row["tenant"]): row["number"] for row in rows} == {
        (of_epoch_ms(start), tenant): number for (start, tenant), number in numbers.items()
    }


def test_a_month_of_a_tenant_is_billed_by_its_first_invoice_or_correction(books: Store, dice: Random) -> None:
    documents = bill(books, dice)
    numbers: dict[tuple[str, str], str] = {}
    issued = {one["month"] for one in documents}
    for one in documents:
        months = [one["month"], *(line["reference"]["month"] for line in one["lines"] if line["charge_class"])]
        for month in months if not one["void"] else ():
            if month in issued:
                numbers.setdefault((one["tenant"], month), one["number"])
    rows = asked(books, "rates/invoiced_months")
    found = {(row["tenant"], row["period_start"], row["period_end"]): row["number"] for row in rows}
    assert len(found) == len(rows)
    assert found == {(tenant, *map(of_epoch_ms, OTHERS[month])): number for (tenant, month), number in numbers.items()}
    assert OCTOBER.start == of_epoch_ms(START)
