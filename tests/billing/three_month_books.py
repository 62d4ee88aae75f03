"""Books of three months that a cluster and a finance team change, step by step: what came late, was corrected, held,
issued, made void. After each step one close looks at the hours that it is about, and at no others.

The zone's midnights lie in the middle of hours. A device is there for some hours alone, so that a close is quick.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.accounts.budgets import budget_states
from billing.accounts.credit_files import import_credits
from billing.accounts.credits import Credit, add_credit, list_credits, reverse_credit
from billing.accounts.prepaid import Grant, add_grant, revoke_grant
from billing.close import CloseReport, close
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.held import accept, effect, refuse
from billing.invoicing.invoices import billed_later, credit, issue_all, standing, void
from billing.invoicing.rederive import rederive
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from billing.tenants import apply_mapping, parse_mapping
from ingest.held import held_pushes
from tests.billing.facts import SAMPLE, job, put, samples
from tests.billing.hand_ledger import at
from warehouse.errors import LedgerError
from warehouse.store import Store

ZONE = "Asia/Kolkata"
FEBRUARY, MARCH, APRIL = (parse_month(month, ZONE) for month in ("2026-02", "2026-03", "2026-04"))
SPANS = (
    ("2026-02-10 08:00", "2026-02-10 12:00"),
    ("2026-02-28 16:00", "2026-02-28 20:00"),
    ("2026-03-10 08:00", "2026-03-10 12:00"),
    ("2026-03-31 16:00", "2026-03-31 20:00"),
)
END, NOW = at("2026-04-02 00:00"), at("2026-04-10 00:00")
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": 600,
    "priority_classes": {"high": {"from": 100}},
    "rates": [
        {"sku": "rush", "match": {"model": "H100", "priority": "high"}, "price_per_gpu_hour": "4.44"},
        {"sku": "own", "match": {"model": "H100", "tenant": "phys"}, "price_per_gpu_hour": "2.71"},
        {"sku": "big", "match": {"model": "H100"}, "price_per_gpu_hour": "3.07"},
        {"sku": "small", "match": {"model": "L40S"}, "price_per_gpu_hour": "1.13"},
        {"sku": "slice", "match": {"model": "A100"}, "price_per_gpu_hour": "1.61"},
    ],
    "commitments": [{"name": "quota", "tenant": "chem", "sku": "*", "gpus": "0.001", "price_per_gpu_hour": "0.11"}],
    "discounts": [
        {"name": "more", "tiers": [{"from": "1", "percent": "10"}, {"from": "3", "percent": "20"}]},
        {"name": "long", "per": "session", "measure": "hours", "tiers": [{"from": "1", "percent": "5"}]},
    ],
    "components": [
        {"sku": "power", "kind": "energy", "price": "0.50", "pue": "1.2"},
        {"sku": "memory", "kind": "memory", "price": "0.02", "match": {"tenant": "bio"}},
    ],
    "idle_policy": [{"pool": "web", "share": "evenly"}, {"share": "allocated_cost"}],
    "taxes": [{"name": "VAT", "percent": "19"}],
    "invoice_currencies": [{"tenant": "kyoto", "currency": "JPY"}],
    "exchange_rates": [{"month": f"2026-0{n}", "currency": "JPY", "rate": f"16{n}.5"} for n in (2, 3, 4)],
}
MAPPING: dict[str, Any] = {"rules": [{"match": {"project": "b"}, "cost_center": "4711"}]}
DEVICES = (
    ("c1", "g0", "n1", "H100", "train", 1),
    ("c1", "g1", "n1", "H100", "train", 1),
    ("c1", "g2", "n1", "L40S", "web", 2),
    ("c1", "m0", "n2", "A100", "mig", 7),
    ("c2", "g0", "n1", "H100", "train", 1),
)
Row = dict[str, Any]
WRONG: Sequence[Row] = (
    *({"month": month} for month in ("2026-13", "2026-02", "2026-1", "2026-04-01", "x", "")),
    *({"amount": amount} for amount in ("0", "1.001", "1,5", "1e99", "x", "")),
    *({name: "x"} for name in ("currency", "kind", "evidence")),
    {"tenant": ""}, {"reason": " "}, {"evidence": "[1]"}, {"id": "c1"},
)  # fmt: skip


@dataclass
class Life:
    """A store and what time it is. closes: those of a step.
    said: what else a step was told.   steps: how many were done.   known: what was said after the step before."""

    store: Store
    now: datetime = NOW
    closes: list[Row] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    known: dict[str, Any] = field(default_factory=dict)
    cards: list[Row] = field(default_factory=lambda: [CARD])

    def do(self, step: Callable[[Life], None]) -> None:
        self.closes, self.said, self.steps = [], {}, self.steps + 1
        step(self)

    def later(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now

    def close(self, until: datetime = END) -> None:
        self.closes.append(looked_at(self.store, close(self.store, until, self.later())))

    def report(self, record: str, *rows: Row, sender: str = "") -> None:
        """By a file, or by a sender whose rows may have to wait."""
        put(self.store, record, rows, sender, f"push:{sender}" if sender else "test")

    def card(self, **more: Any) -> None:
        card = {**self.cards[-1], **more}
        apply_rate_card(self.store, parse_rate_card(card), "ann", "another", self.later())
        self.cards.append(card)

    def number(self, tenant: str, month: str) -> str:
        """Of the tenant's invoice of a month."""
        (one,) = (one for one in standing(self.store, None, tenant) if one.month == month and not one.is_credit_note)
        return str(one.number)

    def refused(self, what: str, command: Callable[[], Any]) -> None:
        with pytest.raises(LedgerError) as error:
            command()
        self.said[f"refused: {what}"] = str(error.value)

    def plans(self, *months: str) -> None:
        """What budgets say."""
        for month in months:
            states = budget_states(self.store, month, self.now)
            self.said[f"budgets of {month}"] = [str(vars(one)) for one in states]

    def void(self, tenant: str, month: str) -> None:
        void(self.store, self.number(tenant, month), self.later(), "ann", "wrong address")


def sample(device: str, ts: str, seconds: float = 600.0, **more: Any) -> Row:
    row = {**SAMPLE, "cluster": "c1", "device_id": device, "ts": at(ts), "interval_seconds": seconds}
    return {**row, "utilization": 0.5, **more}


def looked_at(store: Store, report: CloseReport) -> Row:
    """The hours of a close, and those of which the entries are others than before; to be asked before the next."""
    sql = "SELECT formatDateTime(hour, '%m-%dT%H', 'UTC') AS at, run = checked_by AS is_other FROM closed_hours"
    rows = store.rows(f"{sql} WHERE checked_by = {{run:UInt64}} ORDER BY hour", {"run": report.run})
    again, same = ([row["at"] for row in rows if bool(row["is_other"]) is value] for value in (True, False))
    numbers = (report.checked, report.changed, report.refused, report.held)
    assert (len(again) + len(same), len(again)) == numbers[:2]
    return {"until": f"{report.closed_until:%m-%d}", "others": again, "the same": same, "refused, held": numbers[2:]}


def begin(life: Life) -> None:
    """Everything that is known at first, and the first close."""
    store = life.store
    begins = at("2026-01-01 00:00")
    apply_rate_card(store, parse_rate_card(CARD), "ann", "first", begins)
    apply_mapping(store, parse_mapping(MAPPING), "ann", "cost centres", begins)
    rows = []
    for cluster, name, node, model, pool, units in DEVICES:
        about = {"cluster": cluster, "device_id": name, "node": node, "model": model, "pool": pool, "units": units}
        for start, end in SPANS:
            rows += [{**about, "ts": at(start), "state": "available"}, {**about, "ts": at(end), "state": "removed"}]
    life.report("devices", *rows)
    events: list[Row] = []
    measured: list[Row] = []
    for start, _ in SPANS:
        day, hour = start[:10], int(start[11:13])
        about = {"cluster": "c1", "node": "n1", "queue": "q"}
        for name, tenant, device, begun, ended, more in (
            ("a", "chem", "g0", "0:00", "1:20", {"project": "a"}),
            ("b", "phys", "g1", "0:30", "1:45", {"project": "b"}),
            ("k", "kyoto", "g2", "0:00", "2:40", {"project": "a", "units": 1}),
            ("s", "chem", "g0", "2:10", "2:11", {"project": "a"}),
            ("v", "bio", "m0", "0:50", "2:05", {"project": "a", "units": 2, "partition_id": "p0", "node": "n2"}),
            ("w", "chem", "g0", "3:00", "4:00", {"project": "b", "priority": 100}),
        ):  # fmt: skip
            span = [f"{day} {hour + int(text[0]):02}{text[1:]}" for text in (begun, ended)]
            events += job(f"{name}{day}", tenant, device, span[0], span[1], **{**about, **more})
        drawn = {"cluster": "c1", "power_watts": 300.0, "memory_used_bytes": 2**33}
        measured += [{**one, **drawn} for one in samples("g0", start, range(0, 70, 2))]
        measured += [{**one, **drawn} for one in samples("g1", f"{day} {hour:02}:30", range(30), 0.25)]
        two = {"partition_id": "p0", "workload_id": f"v{day}", "memory_used_bytes": 2**34}
        measured += [sample("m0", f"{day} {hour + 1:02}:{n}0", power_watts=200.0, **two) for n in range(6)]
    life.report("events", *events)
    life.report("samples", *measured)
    budgets = [{"tenant": tenant, "amount": "2.00"} for tenant in ("chem", "phys", "nobody")]
    budgets.append({"tenant": "chem", "project": "a", "amount": "30.00", "thresholds": [{"percent": "20"}]})
    apply_budgets(store, parse_budgets({"currency": "EUR", "budgets": budgets}), "ann", "plan", begins)
    life.close(at("2026-02-10 09:30"))
    life.plans("2026-02")


def all_of_it(life: Life) -> None:
    life.close()
    life.plans("2026-02", "2026-03", "2026-04")


def nothing(life: Life) -> None:
    life.close()


def samples_at_edges(life: Life) -> None:
    """In batches of their own: one that ends with an hour, one that reaches over its edge, one that begins with it."""
    life.report("samples", sample("g2", "2026-02-10 09:00", 600.0))
    life.report("samples", sample("g2", "2026-02-28 17:00:00.001", 600.0))
    life.report("samples", sample("g2", "2026-03-10 09:05", power_watts=150.0))
    life.report("samples", sample("g2", "2026-03-31 18:10"))
    life.close()


def samples_of_which_others_end_before(life: Life) -> None:
    """Another batch's sample ends in the hour into which a later one reaches back."""
    life.report("samples", sample("c", "2026-02-10 10:30", 3600.0), sample("g1", "2026-02-10 10:02", 300.0))
    life.report("samples", sample("g1", "2026-02-10 10:01", 60.0, utilization=1.0))
    life.report("samples", sample("g1", "2026-02-10 10:31", 60.0))
    life.close()


def samples_of_several(life: Life) -> None:
    """Of a device as a whole, of its part, and of who holds it, at once: they do not agree."""
    whole, part = {"utilization": 0.9}, {"partition_id": "p0", "utilization": 0.2}
    for seconds, more in ((600.0, whole), (1200.0, part), (600.0, {**part, "workload_id": "v2026-03-31"})):
        life.report("samples", *(sample("m0", f"2026-03-31 17:{n}0", seconds, **more) for n in (0, 1, 2, 3)))
    for more in ({"workload_id": "a2026-03-31"}, {"workload_id": "a2026-03-31", "partition_id": "p"}, {}):
        reported = [sample("g0", f"2026-03-31 16:{n}0", 600.0, utilization=0.3, **more) for n in (1, 2)]
        life.report("samples", *reported, sample("g0", "2026-03-31 16:30", 60.0, utilization=1.0, **more))
    life.close()


def samples_again(life: Life) -> None:
    """The same, and corrected ones."""
    life.report("samples", sample("g2", "2026-02-10 09:00"), sample("g2", "2026-03-10 09:05", power_watts=150.0))
    life.report("samples", sample("g2", "2026-03-31 18:10", utilization=0.25))
    life.close()


def samples_of_nobody(life: Life) -> None:
    """When its device is not there, and of a device that nobody knows."""
    life.report("samples", sample("g2", "2026-02-14 09:00"), sample("g9", "2026-03-10 09:00"))
    life.close()


def a_job_of_a_node(life: Life) -> None:
    """Of which no device is told, of another cluster than the one that has a device of that name."""
    about = {"allocation_id": "n", "workload_id": "n", "tenant": "phys", "project": "a", "gpus": 1.0, "node": "n1"}
    life.report("events", {**about, "cluster": "c2", "ts": at("2026-02-10 08:20"), "event": "started"})
    life.report("events", {**about, "cluster": "c2", "ts": at("2026-02-10 09:10"), "event": "finished"})
    life.close()


def a_job_that_another_follows(life: Life) -> None:
    """Its end was lost; the last sign of life is before the next holder, in an hour before."""
    about = {"cluster": "c2", "device_id": "g0", "node": "n1", "event": "started", "project": "a"}
    life.report("events", {**about, "allocation_id": "x", "tenant": "bio", "ts": at("2026-03-10 08:10")})
    life.report("samples", sample("g0", "2026-03-10 08:50", cluster="c2", workload_id="x"))
    life.close()
    life.report("events", {**about, "allocation_id": "y", "tenant": "phys", "ts": at("2026-03-10 10:30")})
    life.report("events", {**about, "allocation_id": "y", "event": "finished", "ts": at("2026-03-10 11:30")})
    life.close()


def a_pause(life: Life) -> None:
    about = {"cluster": "c1", "allocation_id": "k2026-03-10"}
    life.report("events", {**about, "ts": at("2026-03-10 08:40"), "event": "suspended"})
    life.report("events", {**about, "ts": at("2026-03-10 10:10"), "event": "resumed"})
    life.close()


def another_size(life: Life) -> None:
    more = {"cluster": "c1", "allocation_id": "k2026-03-31", "device_id": "g2", "units": 2, "event": "resized"}
    life.report("events", {**more, "ts": at("2026-03-31 17:20")})
    life.close()


def another_priority(life: Life) -> None:
    """It is told again, with what matters to its price alone; and with what does not matter."""
    about = {"cluster": "c1", "project": "a", "device_id": "g0", "node": "n1", "event": "started"}
    life.report("events", {**about, "allocation_id": "a2026-03-10", "ts": at("2026-03-10 08:00"), "priority": 200})
    life.report("events", {**about, "allocation_id": "a2026-03-31", "ts": at("2026-03-31 16:00"), "priority": 3})
    life.close()


def a_device_moves(life: Life) -> None:
    """To another pool, and to another node; and is away for a while."""
    about = {"cluster": "c1", "device_id": "g1", "node": "n1", "model": "H100", "units": 1, "state": "available"}
    life.report("devices", {**about, "ts": at("2026-03-10 09:10"), "pool": "web"})
    life.report("devices", {**about, "ts": at("2026-03-31 17:10"), "pool": "train", "node": "n3"})
    away = {**about, "device_id": "g2", "model": "L40S", "units": 2, "pool": "web"}
    life.report("devices", {**away, "ts": at("2026-03-10 11:05"), "state": "unavailable"})
    life.report("devices", {**away, "ts": at("2026-03-10 11:15")})
    life.close()


def idle_power(life: Life) -> None:
    apply_energy_settings(life.store, parse_energy_settings({"idle_power": [{"watts": "60"}]}), "ann", "all", life.now)
    life.close()


def idle_power_of_some(life: Life) -> None:
    """And what the grid is like, which is no part of the books."""
    some = [{"model": "A*", "watts": "30"}, {"watts": "60", "effective_from": "2026-03-10T09:00"}]
    grid = {"idle_power": some, "intensity": [{"grams_per_kwh": "300", "source": "the grid"}]}
    apply_energy_settings(life.store, parse_energy_settings(grid), "ann", "some", life.now)
    life.close()
    grid["intensity"] = [{"grams_per_kwh": "200", "source": "the grid"}]
    apply_energy_settings(life.store, parse_energy_settings(grid), "ann", "greener", life.now)
    life.close()


def other_owners(life: Life) -> None:
    """From a day on; a cost centre, and a tenant."""
    rules = [
        {"match": {"project": "b", "tenant": "phys"}, "tenant": "bio", "effective_from": "2026-03-31"},
        {"match": {"project": "b"}, "cost_center": "4712", "effective_from": "2026-03-01"},
        {"match": {"project": "b"}, "cost_center": "4711", "effective_to": "2026-03-01"},
    ]
    apply_mapping(life.store, parse_mapping({"timezone": ZONE, "rules": rules}), "ann", "others", life.later())
    life.close()


def another_price(life: Life) -> None:
    """Of one in an hour's middle; of one that nobody pays; and of what changes no entry."""
    rates = CARD["rates"]
    since = "2026-03-10T08:40:00Z"
    small = [{**rates[3], "effective_to": since}, {**rates[3], "price_per_gpu_hour": "1.2", "effective_from": since}]
    life.card(rates=[*rates[:3], *small, rates[4]])
    life.close()
    life.card(rates=[*life.cards[-1]["rates"], {"sku": "new", "match": {"model": "B*"}, "price_per_gpu_hour": "9"}])
    life.close()
    taxes = [{"effective_to": "2026-04", "percent": "19"}, {"effective_from": "2026-04", "percent": "20"}]
    life.card(taxes=[{"name": "VAT", **tax} for tax in taxes])
    life.close()


def not_yet(life: Life) -> None:
    """Why a month is not issued."""
    before = life.cards[-1]
    life.refused("not closed", lambda: issue_all(life.store, APRIL, at("2026-05-02 00:00")))
    life.card(grace_days=60)
    life.refused("its grace", lambda: issue_all(life.store, FEBRUARY, life.later()))
    life.card(grace_days=0, exchange_rates=before["exchange_rates"][1:])
    life.refused("no exchange rate", lambda: issue_all(life.store, FEBRUARY, life.later()))
    prices = [{**rate, "price_per_gpu_hour": "9"} if rate["sku"] == "own" else rate for rate in before["rates"]]
    life.card(exchange_rates=before["exchange_rates"], rates=prices)
    life.refused("prices", lambda: issue_all(life.store, FEBRUARY, life.later()))
    life.card(rates=[rate for rate in before["rates"] if rate["sku"] != "slice"])
    life.close()
    life.refused("no price", lambda: issue_all(life.store, FEBRUARY, life.later()))
    life.card(**before)
    life.close()
    life.report("samples", sample("g1", "2026-02-28 18:20", 60.0))
    life.refused("late", lambda: issue_all(life.store, FEBRUARY, life.later()))
    life.close()


def credit_files(life: Life) -> None:
    """In each form, with rows of every kind of wrong in them; the same twice."""
    rows: Sequence[Row] = (
        {"tenant": "chem", "month": "2026-03", "amount": "0.30", "reason": "down", "id": "f1"},
        {"tenant": "phys", "month": "2026-03", "amount": "0.40", "reason": "down", "project": "b", "author": "bob"},
        {"tenant": "bio", "month": " 2026-04 ", "amount": "0.05", "reason": "slow", "kind": "goodwill"},
        {"tenant": "bio", "month": "2026-04", "amount": "0.06", "reason": "slow", "evidence": '{"hours": 2}'},
        {"tenant": "chem", "month": "2026-03", "amount": "0.31", "reason": "down", "id": "f1"},
        *({"tenant": "bio", "month": "2026-04", "amount": "1", "reason": "x", **wrong} for wrong in WRONG),
    )
    names = list(dict.fromkeys(name for row in rows for name in row if name != "colour"))
    text = io.StringIO()
    table = csv.writer(text)
    table.writerows([names, *([row.get(name, "") for name in names] for row in rows), ["too", "few"], []])
    lines = [json.dumps({**row, "amount": f"1{row['amount']}"}) for row in rows]
    lines += ["{", "[1]", '{"tenant": 7, "month": "2026-04", "amount": "1", "reason": "x"}', ""]
    lines.append('{"tenant": "bio", "month": "2026-04", "amount": "1", "reason": "y", "evidence": {"n": 1}}')
    files = {
        "a.csv": text.getvalue().encode(),
        "b.jsonl": "\n".join(lines).encode(),
        "c.csv.gz": gzip.compress(text.getvalue().encode()),
        "d.csv": b"tenant,month,amount\nbio,2026-04,1\n",
        "e.csv": b"tenant,month,tenant,amount,reason\n",
        "f.csv": b'tenant,month,amount,reason\n"bio,2026-04,1,x\n',
        "g.csv": b"\xff",
        "h.txt": b"",
        "i.csv.gz": b"no gzip",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.write_bytes(content)
            try:
                reported = repr(import_credits(life.store, path, "ann", life.later()))
            except LedgerError as error:
                reported = str(error)
            life.said[name] = re.sub(r"'id': '\w+'", "", reported.replace(folder, "FOLDER"))
    kept = life.store.rows("SELECT row, reason, detail, raw FROM quarantine WHERE record_type = 'credits' ORDER BY ALL")
    life.said["credits"] = [re.sub(r"id='\w{9,}'", "", str(one)) for one in list_credits(life.store)]
    life.said["quarantine"] = [len(kept), *kept[:2]]


def february_is_issued(life: Life) -> None:
    issue_all(life.store, FEBRUARY, life.later(), actor="ann")


def late_jobs(life: Life) -> None:
    """Of a tenant that is new, of one that has an invoice, and one over the month's end, by files."""
    more = {"project": "a", "cluster": "c1", "node": "n1"}
    rows = job("l1", "late", "g0", "2026-02-10 09:30", "2026-02-10 09:50", **more)
    rows += job("l2", "phys", "g1", "2026-02-10 10:00", "2026-02-10 11:30", **more)
    rows += job("l3", "kyoto", "g1", "2026-02-28 18:10", "2026-02-28 18:50", **more)
    life.report("events", *rows)
    life.close()


def pushed(life: Life) -> None:
    """By senders: what moves the issued month, what moves none, and what moves one that is not."""
    life.report("samples", sample("g1", "2026-02-10 10:30", 1200.0, utilization=1.0), sender="moves")
    life.report("samples", sample("g1", "2026-02-14 10:30", 1200.0), sender="is nothing")
    life.report("samples", sample("g1", "2026-03-10 09:20", 600.0, utilization=1.0), sender="is of March")
    life.report("samples", sample("g1", "2026-02-28 18:35", 600.0), sender="is of both")
    more = {"project": "a", "cluster": "c1", "node": "n1"}
    life.report("events", *job("p1", "bio", "g0", "2026-02-10 10:00", "2026-02-10 10:40", **more), sender="job")
    # A session that was charged for its shortness goes on, so that it was none.
    life.report(
        "events", *job("s2026-02-10", "chem", "g0", "2026-03-10 10:40", "2026-03-10 10:41", **more), sender="on"
    )
    life.close()
    for push in sorted(held_pushes(life.store), key=lambda one: one.sender):
        if push.sender in ("job", "moves", "on"):
            life.said[f"a yes to {push.sender}"] = [str(vars(one)) for one in effect(life.store, push).changes]


def decided(life: Life) -> None:
    """A person takes the job and what moves, and refuses the rest."""
    for push in sorted(held_pushes(life.store), key=lambda one: one.sender):
        yes = push.sender in ("job", "moves")
        (accept if yes else refuse)(life.store, push.id, life.later(), "ann", "seen")
    life.close()


def short_sessions(life: Life) -> None:
    """One of the issued month goes on in the next, and one was shorter."""
    more = {"project": "a", "cluster": "c1", "node": "n1"}
    life.report("events", *job("s2026-02-28", "chem", "g0", "2026-03-10 10:30", "2026-03-10 10:31", **more))
    life.report("events", {"cluster": "c1", "allocation_id": "l1", "event": "failed", "ts": at("2026-02-10 09:33")})
    life.close()


def accounts(life: Life) -> None:
    """A credit comes late, and one that stands on an invoice is taken back; grants pay, and one no more."""
    for name, month, amount in (("c1", "2026-03", "0.50"), ("c2", "2026-03", "0.20"), ("c3", "2026-04", "0.10")):
        given = Credit("phys", month, Decimal(amount), "EUR", "sorry", author="ann", id=name)
        add_credit(life.store, given, life.later())
    reverse_credit(life.store, "c2", "ann", "not due", life.later())
    held = {"currency": "EUR", "author": "ann", "reason": "paid before", "expires_at": at("2027-01-01 00:00")}
    for name, tenant, paid in (("g1", "phys", "1.00"), ("g2", "phys", "0.30"), ("g3", "bio", "90.00")):
        one = Grant(name, tenant, Decimal(paid), starts_at=at("2026-02-20 00:00"), **held)
        add_grant(life.store, one, life.later())
    life.plans("2026-02", "2026-03", "2026-04")
    revoke_grant(life.store, "g2", "ann", "sent back", at("2026-03-11 00:00"))


def one_is_void(life: Life) -> None:
    """A credit note is given on another."""
    life.void("kyoto", "2026-02")
    credit(life.store, life.number("chem", "2026-02"), Decimal("0.10"), life.later(), "ann", "goodwill")


def it_is_issued_again(life: Life) -> None:
    issue_all(life.store, FEBRUARY, life.later(), "kyoto", actor="ann")


def promised(life: Life) -> None:
    """To somebody who holds nothing, since the issued month; and a longer minimum."""
    quota = {"name": "late quota", "tenant": "quiet", "sku": "big", "gpus": "0.002", "price_per_gpu_hour": "0.20"}
    dates = {"effective_from": "2026-02", "effective_to": "2026-04"}
    life.card(commitments=[*CARD["commitments"], {**quota, **dates}])
    life.close()


def march_is_issued(life: Life) -> None:
    """With what February owes; under numbers of its own."""
    life.card(issuer={"name": "another"})
    life.refused("numbers of another", lambda: issue_all(life.store, MARCH, life.later()))
    life.card(issuer={"name": "GPU platform"})
    issue_all(life.store, MARCH, life.later(), actor="ann")
    again = rederive(life.store, life.number("phys", "2026-03"))
    life.said["computed again"] = [again.hours, again.same, [str(one) for one in again.differences]]


def one_of_march_ends_earlier(life: Life) -> None:
    row = {"cluster": "c1", "allocation_id": "w2026-03-31", "event": "failed", "ts": at("2026-03-31 19:30")}
    life.report("events", row)
    life.close()
    row = {"cluster": "c1", "allocation_id": "a2026-03-10", "event": "failed", "ts": at("2026-03-10 08:30")}
    life.report("events", row)
    life.close()


def march_is_void(life: Life) -> None:
    """All of it, and so are February's corrections."""
    for one in standing(life.store, MARCH):
        void(life.store, str(one.number), life.later(), "ann", "a mistake")


def february_is_void(life: Life) -> None:
    """But for its credit note's invoice: nothing is issued of March, so that April bears all."""
    for one in standing(life.store, FEBRUARY):
        if one.tenant != "chem":
            void(life.store, str(one.number), life.later(), "ann", "a mistake")


def april_is_issued(life: Life) -> None:
    """It corrects months of which all invoices are void, or nearly all."""
    life.now = at("2026-05-03 00:00")
    life.close(at("2026-05-02 00:00"))
    issue_all(life.store, APRIL, life.later(), actor="ann")
    life.said["billed later"] = {**billed_later(life.store, FEBRUARY), **billed_later(life.store, MARCH, "quiet")}
    life.refused("billed later", lambda: issue_all(life.store, FEBRUARY, life.later(), "late"))
    life.plans("2026-04", "2026-05")


def late_again(life: Life) -> None:
    more = {"project": "a", "cluster": "c1", "node": "n1"}
    life.report("events", *job("l4", "phys", "g1", "2026-02-28 19:30", "2026-02-28 19:50", **more))
    life.report("events", *job("l5", "bio", "g1", "2026-03-10 11:30", "2026-03-10 11:50", **more))
    life.close(at("2026-05-02 00:00"))


STEPS: Sequence[Callable[[Life], None]] = (
    begin, all_of_it, nothing, samples_at_edges, samples_of_which_others_end_before, samples_of_several,
    samples_again, samples_of_nobody, a_job_of_a_node, a_job_that_another_follows, a_pause, another_size,
    another_priority, a_device_moves, idle_power, idle_power_of_some, other_owners, another_price, not_yet,
    february_is_issued, late_jobs, pushed, decided, short_sessions, accounts, credit_files, one_is_void,
    it_is_issued_again, promised, march_is_issued, one_of_march_ends_earlier, march_is_void, february_is_void,
    april_is_issued, late_again,
)  # fmt: skip
