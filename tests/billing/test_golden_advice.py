"""What is advised of any holders, and where their idle time went: of drawn ones what the golden file says.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_advice.py     renews golden/advice.json

Who held what is drawn here in place of read from a ledger, so that hundreds of cases cost a second: allocations of
several devices, replicas, runs that recur, parts of a device, what has no price, no samples or no memory. Whether the
advice is right is for test_insights.py and test_savings_lives.py, which reckon it from samples.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from billing.closed import Closed
from billing.insights import savings as module
from billing.insights.holders import FOUR_WEEKS, WEEK, Holder, IdleStretches, Rules, Span, Use
from billing.insights.savings import SavingsReport, savings
from billing.insights.waste import IdleTime, _Sums
from billing.periods import Period
from billing.rates import parse_rate_card
from tests.billing.golden import compare, digest
from tests.billing.hand_ledger import at
from warehouse.errors import LedgerError
from warehouse.store import Store

WORLDS, SHORT, FULL = 300, 60, 2
"""Worlds; of so many there is a line for each thing that is advised, and of so many the whole answer; of others a
digest."""
GB = 10**9
END = at("2026-10-31 00:00")
BEFORE, LAST = "2026-10-30", "2026-10-31"
TENANTS = (("chem", "a"), ("chem", "b"), ("phys", "a"))
KINDS = (
    ("NVIDIA A100-SXM4", 80 * GB),
    ("NVIDIA H100 PCIe", 80 * GB),
    ("NVIDIA L40S", 48 * GB),
    ("NVIDIA A30", 24 * GB),
)
NAMES = (
    "vllm-0",
    "vllm-1",
    "vllm-2",
    "train",
    "train-7f6c5b4d9-x2x4z",
    "5f0c1a1e-0b0a-4f3a-9d57-0a2b4c6d8e0f",
    "4711",
    "etl_3",
    "",
)
CARD = parse_rate_card(
    {
        "currency": "EUR",
        "rates": [
            {"sku": "mig-small", "match": {"partition_profile": "1g.*"}, "price_per_gpu_hour": "4.10"},
            {"sku": "3g", "match": {"partition_profile": "3g.*"}, "price_per_gpu_hour": "1.9", "effective_to": LAST},
            {"sku": "4g", "match": {"partition_profile": "[24]*"}, "price_per_gpu_hour": "1.5", "effective_to": BEFORE},
            {"sku": "any", "price_per_gpu_hour": "3.00"},
        ],
    }
)  # fmt: skip


def drawn_use(dice: random.Random, hours: Fraction, memory: int) -> Use | None:
    if dice.random() < 0.05:
        return None
    p50, p95, p99 = sorted(Decimal(dice.randrange(0, dice.choice((150, 300, 1001)))) / 1000 for _ in range(3))
    covered = hours * dice.choice((*[1] * 9, Fraction(99, 100), Fraction(9, 10), Fraction(8, 10)))
    most = dice.choice((None, *[memory // 50, memory // 8, memory // 4] * 3, memory // 2, memory))
    return Use(
        covered_ms=int(covered * 3_600_000), samples=dice.randrange(10, 9999), p50=p50, p95=p95, p99=p99,
        max_memory_bytes=most, memory_total_bytes=dice.choice((None, memory)),
        idle_memory_bytes=dice.choice((None, 0, 1 << 29, 1 << 30, most)),
        sources=dice.choice((("dcgm",), ("nvml", "dcgm"), ())),
    )  # fmt: skip


def drawn_holder(dice: random.Random, period: Period, number: str, device: int, about: dict[str, Any]) -> Holder:
    model, memory = about["kind"]
    start, end, price = about["start"], about["end"], about["price"]
    share, profile = about["part"]
    clock = Fraction((end - start).total_seconds()) / 3600 * about["held"]
    held = clock * share
    idle = held * dice.choice((0, 0, Fraction(1, 7), Fraction(1, 2), 1)) if about["mode"] != "recurs" else held / 2
    unmetered = (held - idle) * dice.choice((*[0] * 9, Fraction(1, 20), Fraction(1, 5)))
    waste = idle * dice.choice((0, Fraction(1, 2), 1))
    long_enough = waste and clock >= 6
    stretches = None
    if long_enough:
        longest = dice.choice((6, 23, 24, 100))
        since = start + timedelta(hours=dice.randrange(5))
        stretches = IdleStretches(
            dice.randrange(1, 5), longest, waste, longest * 2, since, since + timedelta(hours=longest)
        )
    spans = []
    for since in (period.start, max(period.start, period.end - WEEK), max(period.start, period.end - FOUR_WEEKS)):
        part = max(Fraction(0), Fraction((end - max(start, since)) / (end - start)))
        spans.append(
            Span(since, held * part, None if price is None else held * part * Fraction(price),
                 None if price is None else (waste * part * Fraction(price) if stretches else Fraction(0)))
        )  # fmt: skip
    cost = Fraction(price or 0) * idle
    unused_cost = cost * dice.choice((0, Fraction(1, 2)))
    return Holder(
        cluster=about["cluster"], allocation_id=number, device_id=f"g{device}",
        partition_id=f"g{device}-p0" if profile else "", tenant=about["tenant"], project=about["project"],
        queue=about["queue"], workload_id=about["workload"], node="n1", model=model, pool=about["pool"],
        partition_profile=profile, share=share, start_at=start, end_at=end, still_held=end >= period.end, held=held,
        used=held - idle - unmetered, idle=idle, unmetered=unmetered, period=spans[0], week=spans[1],
        four_weeks=spans[2], idle_cost=cost, quiet_cost=unused_cost, dim_cost=(cost - unused_cost) / 4, price=price,
        device_memory_bytes=dice.choice((memory, memory, None)), stretches=stretches,
        use=drawn_use(dice, clock, memory),
    )  # fmt: skip


def drawn_holders(dice: random.Random, period: Period) -> Iterator[Holder]:
    """Groups of allocations that have much in common: runs that come again, replicas beside each other, or anything."""
    hours = int((period.end - period.start) / timedelta(hours=1))
    device = 0
    for group in range(dice.randrange(1, 5)):
        mode = dice.choice(("recurs", "replicas", "any"))
        name, kind = dice.choice(NAMES), dice.choice(KINDS)
        tenant, project = dice.choice(TENANTS)
        about: dict[str, Any] = {
            "mode": mode,
            "tenant": tenant,
            "project": project,
            "queue": dice.choice(("q", "night")),
        }
        about |= {"cluster": dice.choice(("", "west")), "pool": dice.choice(("train", "web")), "kind": kind}
        about["price"] = dice.choice((*[Decimal("3.00"), Decimal("1.234567")] * 3, Decimal(0), None))
        apart, length, devices = dice.choice((1, 1, 2, 7)), dice.choice((7, 20, 26)), dice.choice((1, 1, 2))
        for run in range(dice.choice((1, 2, 3, 4, 6))):
            about |= {"start": period.start, "end": period.end, "held": 1, "part": (Fraction(1), ""), "workload": name}
            if mode == "recurs":
                start = max(period.start, period.end - timedelta(hours=24 * apart * run + dice.choice((4, 27, 30))))
                about |= {"start": start, "end": min(period.end, start + timedelta(hours=length))}
            elif mode == "replicas":
                begins, ends = (timedelta(hours=dice.choice((0, 0, 1, hours // 12))) for _ in range(2))
                about |= {
                    "start": period.start + begins,
                    "end": period.end - ends,
                    "workload": f"{name or 'vllm'}-{run}",
                }
            else:
                start = period.start + timedelta(hours=dice.choice((0, 0, 5, hours // 2)))
                end = dice.choice((period.end, period.end, start + (period.end - start) / 2))
                about |= {
                    "start": start,
                    "end": end,
                    "held": dice.choice((1, 1, Fraction(1, 2))),
                    "kind": dice.choice(KINDS),
                }
                about["part"] = dice.choice((
                    *[(Fraction(1), "")] * 3, (Fraction(3, 7), "3g.40gb"), (Fraction(4, 7), "4g.40gb"),
                    (Fraction(1, 2), ""),
                ))  # fmt: skip
            for place in range({"recurs": devices, "replicas": 1, "any": dice.choice((1, 1, 2, 4))}[mode]):
                device += 1
                if place == 1 and mode == "any":  # it shrank: it goes on with fewer, or with one of another length
                    about |= {"end": about["end"] - (about["end"] - about["start"]) * dice.choice((0, 0.02, 0.5))}
                yield drawn_holder(dice, period, f"a{group}-{run}", device, about)


def idle_time(dice: random.Random, holders: list[Holder], currencies: set[str]) -> IdleTime:
    """What the holders left idle, and a little more of each kind."""
    tenants: dict[str, _Sums] = defaultdict(lambda: _Sums(defaultdict(Fraction)))
    for holder in holders:
        own = tenants[holder.tenant]
        more = Fraction(dice.randrange(1000), 700)
        own.parts["short"] += holder.quiet_cost + (holder.period.waste or 0)
        own.parts["not_judged"] += holder.dim_cost
        own.parts["in_use"] += holder.idle_cost - holder.quiet_cost - holder.dim_cost
        own.parts["shared"] += more
        own.idle += holder.idle + more
        own.unpriced += holder.idle if holder.price is None else Fraction(0)
        own.unmetered += holder.unmetered
        own.unpriced_unmetered += holder.unmetered if holder.price is None else Fraction(0)
        own.unmetered_cost += holder.unmetered * Fraction(holder.price or 0)
    free, cost = Fraction(dice.randrange(99), 7), Fraction(dice.randrange(99), 9)
    return IdleTime(tenants, free, Fraction(0), cost, frozenset(currencies))


def advised(monkeypatch: pytest.MonkeyPatch, world: int) -> SavingsReport:
    dice = random.Random(f"advice {world}")
    start: datetime = END - timedelta(hours=dice.choice((120, 24 * 20, 24 * 35)))
    period = Period(start, END)
    holders = list(drawn_holders(dice, period))
    idle = idle_time(dice, holders, dice.choice((*[{"EUR"}] * 12, {"JPY"}, set(), {"EUR", "USD"})))
    asked = {}
    if world % 4 == 3:
        asked = {"workload": dice.choice(holders).workload_id} if world % 8 == 3 else {"tenant": "chem"}
    rules = dice.choice((Rules(), Rules(), Rules(min_coverage=Decimal("0.95"), least_hours=48, busy=Decimal("0.5"))))
    closed = Closed(period, 100, 90, Period(start, END))
    card = dice.choice((None, SimpleNamespace(card=CARD), SimpleNamespace(card=CARD)))

    def read(_: Store, period: Period, rules: Rules, tenant: str = "") -> list[Holder]:
        return [one for one in holders if not tenant or one.tenant == tenant]

    monkeypatch.setattr(module, "closed_part", lambda store, period: closed)
    monkeypatch.setattr(module, "read_idle_time", lambda *_: idle)
    monkeypatch.setattr(module, "read_holders", read)
    monkeypatch.setattr(module, "current_rate_card", lambda store: card)
    return savings(None, None, rules, **asked)  # type: ignore[arg-type]


def in_short(report: SavingsReport) -> dict[str, Any]:
    document = json.loads(json.dumps(report.document(), default=str))
    lines = [
        f"{one.kind} {one.tenant}/{one.project} {' '.join(one.workloads)}: {one.monthly_amount} {one.past_amount} "
        f"{one.confidence} {one.basis} {one.runs}; {one.what}"
        for one in report.recommendations
    ]
    unknown = [f"{one.tenant} {one.workload} {one.hours}: {one.reason}" for one in report.not_judged]
    rows = [{**one.row(), "reproduce": ""} for one in report.recommendations]
    said = {
        "advised": lines,
        "unknown": unknown,
        "in all": digest(document),
        "rows": digest(json.loads(json.dumps(rows, default=str))),
    }
    return {**said, "summary": document["summary"]}


def test_what_is_advised_of_any_holders_is_that_of_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    for world in range(WORLDS):
        try:
            report = advised(monkeypatch, world)
        except LedgerError as error:
            found[str(world)] = str(error)
            continue
        found[str(world)] = short = in_short(report)
        if world >= SHORT:
            found[str(world)] = digest(short)
        if world < FULL:
            found[f"{world} in full"] = json.loads(json.dumps(report.document(), default=str))
    compare("advice", "advised", found)
