"""Efficiency, savings and anomalies: figures worked out by hand, and the nearest case that must stay silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from billing.insights.anomalies import AnomalyReport, anomalies
from billing.insights.efficiency import efficiency
from billing.insights.holders import Rules, read_holders
from billing.insights.mig_profiles import mig_profiles
from billing.insights.proposals import replica_name
from billing.insights.savings import Recommendation, SavingsReport, savings
from billing.insights.waste import Waste
from billing.periods import Period, parse_period
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.account_books import NO_PRICES
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.billing.hand_ledger import close as close_hours
from tests.billing.small_fleet import (
    GIB,
    H100,
    L40S,
    RATES,
    Hourly,
    Job,
    busy_then_idle,
    history,
    run,
    whole_days,
)
from tests.draws import drawn, drawn_seed, seldom
from tests.stores import emptied
from warehouse.errors import LedgerError
from warehouse.json_values import as_json
from warehouse.store import Store


def only(report: SavingsReport) -> Recommendation:
    (one,) = report.recommendations
    return one


def amounts(report: SavingsReport) -> list[tuple[str, str | None, str | None]]:
    return [as_json((one.kind, one.monthly_amount, one.past_amount)) for one in report.recommendations]


# Efficiency


NOON = at("2026-10-05 12:00")


def test_an_8_gpu_job_at_full_use_is_1(books: Store) -> None:
    fill(books, [Row(NOON, "physics", device=f"gpu-{n}", used=str(HOUR_MS)) for n in range(8)])
    (row,) = efficiency(books, None, ["tenant"]).rows
    assert as_json((row["efficiency"], row["coverage"], row["allocated_gpu_hours"])) == as_json(
        (Decimal("1.000000000"), Decimal("1.000000000"), Decimal("8.000000000"))
    )


def test_unmetered_time_lowers_the_coverage_and_not_the_efficiency(books: Store) -> None:
    half, quarter = HOUR_MS // 2, HOUR_MS // 4
    fill(
        books,
        [
            Row(NOON, "physics", used=str(half), idle=str(quarter), unmetered=quarter, contracted="1.60"),
            Row(NOON, "chem", device="gpu-1", units=7, used=str(HOUR_MS), idle=str(6 * HOUR_MS)),
            Row(NOON, "dark", device="gpu-2", unmetered=HOUR_MS),
            Row(NOON, device="gpu-3", unallocated=HOUR_MS),
        ],
    )
    report = efficiency(books, None, ["tenant"])
    names = ("tenant", "efficiency", "coverage", "idle_cost", "unmetered_cost", "list_cost", "billed_cost")
    assert [as_json([row[name] for name in names]) for row in report.rows] == [
        ["chem", "0.142857143", "1.000000000", "1.714285714", "0.000000000", "2.000000000", "2.000000000"],
        ["physics", "0.666666667", "0.750000000", "0.400000000", "0.400000000", "2.000000000", "1.600000000"],
        ["dark", None, "0.000000000", "0.000000000", "2.000000000", "2.000000000", "2.000000000"],
    ]
    # (1/2 + 1/7) of (3/4 + 1) metered hours, of 3 allocated
    assert as_json((report.total["efficiency"], report.total["coverage"])) == ["0.367346939", "0.583333333"]


def test_a_holder_is_what_it_was_last(books: Store) -> None:
    """Whatever changes from entry to entry, within an hour too; how a device is divided changes between hours."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"last {seed}")
    names = ("queue", "workload", "node", "model", "contracted")
    last: dict[str, Row] = {}
    for name in names:
        rows = []
        for hour in range(30):
            units = dice.choice((4, 7))
            for half in (0, 30):
                value = f"1.{hour}{half:02}" if name == "contracted" else f"{dice.randrange(100)}-{hour}-{half}"
                start = at("2026-10-05 00:00") + timedelta(hours=hour, minutes=half)
                more: dict[str, Any] = {name: value, "units": units, "idle": str(HOUR_MS // 2), "profile": "1g.10gb"}
                rows.append(Row(start, "chem", name, device=name, **more))
        fill(books, dice.sample(rows, len(rows)))
        last[name] = rows[-1]
    period = Period(at("2026-10-05 00:00"), at("2026-10-06 06:00"))
    found = {one.device_id: one for one in read_holders(books, period, Rules())}
    assert set(found) == set(names)
    for name, attribute in zip(names, ("queue", "workload_id", "node", "model", "price"), strict=True):
        said, expected = getattr(found[name], attribute), getattr(last[name], name)
        assert said == (Decimal(expected) if name == "contracted" else expected), name
        assert found[name].idle == Fraction(30, last[name].units), name


@pytest.mark.parametrize(("metered", "dim"), [("0.9", False), ("0.8999", True)])
def test_an_hour_that_is_metered_just_enough_is_reported(books: Store, metered: str, dim: bool) -> None:
    idle = int(Decimal(metered) * HOUR_MS)
    start = at("2026-10-05 00:00")
    rows = [
        Row(start + timedelta(hours=hour), "chem", idle=str(idle), unmetered=HOUR_MS - idle, profile="1g.10gb")
        for hour in range(30)
    ]
    fill(books, rows)
    (found,) = read_holders(books, Period(start, start + timedelta(hours=30)), Rules(min_coverage=Decimal("0.9")))
    assert (found.dim_cost > 0, found.quiet_cost > 0) == (dim, not dim)


def test_idle_cost_without_a_price_is_unknown_and_days_are_in_order(books: Store) -> None:
    day = timedelta(days=1)
    fill(books, [Row(NOON + day, "a", idle=str(HOUR_MS), price=None), Row(NOON, "a", used=str(HOUR_MS))])
    report = efficiency(books, None, ["day"])
    assert [(row["day"], row["idle_cost"], row["billed_cost"]) for row in report.rows] == [
        ("2026-10-05", 0, 2),
        ("2026-10-06", None, None),
    ]
    with pytest.raises(LedgerError, match="'owner' is not a dimension"):
        efficiency(books, None, ["owner"])


# Savings: one fleet of many tenants, each with a case of its own


HOURS = 100
FOUR = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
UNPRICED = "NVIDIA L4"
TENTH = {"use": 0.10, "memory": 7}
PARTITION_RATES = [
    {"sku": f"h100-1g-{tenant}", "match": {"model": H100, "partition_profile": "1g.*", "tenant": tenant},
     "price_per_gpu_hour": price} for tenant, price in (("own-price", "4.90"), ("dear", "19.60"))
]  # fmt: skip


def of(tenant: str, *jobs: Job) -> list[Job]:
    """Jobs of a tenant of its own, on devices of its own."""
    return [replace(one, tenant=tenant, devices=[f"{tenant} {name}" for name in one.devices]) for one in jobs]


def pairs(make: Callable[..., list[Job]], seconds: Sequence[dict[str, Any]]) -> list[Job]:
    """Two jobs of a tenant of their own for each case, on devices of their own."""
    found = []
    for n, second in enumerate(seconds):
        tenant = f"{make.__name__}-{n}"
        first, other = make(**{"tenant": tenant, **second})
        found.append(replace(first, name=f"{tenant}-{first.name}", tenant=tenant, devices=(f"{tenant} a",)))
        found.append(replace(other, name=f"{tenant}-{other.name}", devices=(f"{tenant} b",)))
    return found


def replicas(**second: Any) -> list[Job]:
    words: dict[str, Any] = {"use": 0.35, "memory": 15, "model": L40S}
    return [Job("vllm-0", ("GPU-0",), **words), Job("vllm-1", ("GPU-1",), **{**words, **second})]


def sharers(**second: Any) -> list[Job]:
    words: dict[str, Any] = {"use": 0.25, "memory": 15, "model": L40S}
    return [Job("alpha", ("GPU-0",), **words), Job("beta", ("GPU-1",), **{"project": "bsm", **words, **second})]


def with_a_gap(hour: int) -> float | None:
    """Ten idle hours, but of the sixth there is no sample: no stretch has six."""
    return None if hour == 45 else 0.0 if 40 <= hour < 51 else 0.9


def bursts(*hours: int) -> Hourly:
    return lambda hour: 0.9 if hour in hours else 0.1


PROFILES: list[tuple[Job, str | None]] = [
    (Job("more-memory", use=0.10, memory=8), "1g.20gb"),
    (Job("a-slice-and-a-bit", use=0.143, memory=7), "2g.20gb"),
    (Job("half", use=0.4, memory=30), "3g.40gb"),
    (Job("compute-of-four", use=0.5, memory=30), "4g.40gb"),
    (Job("one-burst-of-a-hundred", use=bursts(50), memory=7), "1g.10gb"),
    (Job("two-bursts-of-a-hundred", use=bursts(50, 60), memory=7), None),
    (Job("memory-of-a-whole", use=0.1, memory=34), None),
    (Job("no-mig", use=0.1, memory=7, model=L40S), None),
    (Job("no-day", use=0.1, memory=7, until=23), None),
    (Job("pair", ("p0", "p1"), use=0.5, memory=7), None),
]
FEWER: list[tuple[float, float | None, int | None]] = [
    (0.20, 9, 1),  # 0.80 of 0.80; 43.2 of 48 GiB
    (0.21, 9, 2),  # 0.84 of 0.80
    (0.20, 20, 2),  # 96 of 48 GiB
    (0.20, 20.1, 3),
    (0.65, 9, None),  # 2.60 of 0.80: four
    (0.20, 31, None),  # 148.8 of 48 GiB: four
    (0.20, None, None),
]
"""Use and memory of each of four GPUs, and how many are enough."""
NO_REPLICAS: list[dict[str, Any]] = [
    {"project": "bsm"}, {"tenant": "elsewhere"}, {"use": 0.46}, {"since": 13}, {"memory": 26},
]  # fmt: skip
NO_SHARERS: list[dict[str, Any]] = [
    {"tenant": "elsewhere"}, {"use": 0.3}, {"memory": 26}, {"since": 77}, {"memory": None}, {"model": H100},
]  # fmt: skip
PART = {"device_units": 7, "units": 1}
NEAR_IDLE: dict[str, Hourly] = {
    "1.1 percent is use": lambda hour: 0.9 if hour < 10 else 0.011,
    "five hours are short": lambda hour: 0.9 if hour % 6 == 0 else 0.0,
    "an hour without a sample ends a stretch": with_a_gap,
}
FLEET = [
    *of("idler", Job("train", use=busy_then_idle)),
    *of("dark", Job("dark", use=lambda hour: 0.9 if hour < 10 else None)),
    *of("ended", Job("ended", use=busy_then_idle, until=20)),
    *of("near-idle", *(Job(name, (name,), use=use, model=L40S) for name, use in NEAR_IDLE.items())),
    *of("six-hours", Job("six", use=lambda hour: 0.01 if 40 <= hour < 46 else 0.9, model=L40S)),
    *of("parts", Job("slice", ("GPU-0",), partition="GPU-0::0", **PART),
        Job("instance", ("GPU-1",), partition="MIG-1", profile="1g.10gb", memory=0.0, since=72, **PART)),
    *of("gang", Job("gang", ("GPU-0",), use=0.9), Job("gang", ("GPU-1",))),
    *of("free", Job("free", model=UNPRICED)),
    *of("low", Job("low", **TENTH)),
    *(job for one, _ in PROFILES for job in of(one.name, one)),
    *of("unknown", Job("unknown", use=0.1, memory=None)),
    *of("own-price", Job("own-price", **TENTH)),
    *of("dear", Job("dear", **TENTH)),
    *of("third", Job("third", use=0.2, memory=7, device_units=7, units=3, partition="MIG-0", profile="3g.40gb")),
    *of("four", *(Job(f"j{n}", [f"{n}-{name}" for name in FOUR], use=use, memory=memory, model=L40S)
                  for n, (use, memory, _) in enumerate(FEWER))),
    *of("blind", Job("blind", FOUR[:3], use=0.1, model=L40S), Job("blind", FOUR[3:], use=lambda _: None, model=L40S)),
    *of("two-models", *(Job("mixed", (model,), use=0.1, memory=7, model=model) for model in (L40S, H100))),
    *of("two-parts", *(Job("sliced", (name,), use=0.1, memory=7, partition=f"MIG-{name}", profile="3g.40gb",
                           device_units=7, units=3) for name in FOUR[:2])),
    *of("replicas", *replicas()),
    *pairs(replicas, NO_REPLICAS),
    *of("sharers", *sharers(since=8)),
    *pairs(sharers, NO_SHARERS),
    *of("left", *(replace(one, name=f"left-{one.name}", until=60 if one.name == "alpha" else None)
                  for one in sharers())),
    # Both could share a device for 70 hours; `idle` has been idle for 82 hours.
    *of("best", Job("idle", ("GPU-0",), use=lambda hour: 0.2 if hour < 18 else 0.0, memory=15, model=L40S),
        Job("busy", ("GPU-1",), since=30, use=0.2, memory=15, model=L40S), Job("serve", ("GPU-2",), **TENTH)),
    # Of 58.5 hours 2.5 were busy, less than a twentieth: of the sample in which it came, it has half.
    *of("it's", Job("it's", since=41.5, use=lambda hour: 0.9 if hour < 44 else 0.0)),
    *of("partly", Job("partly", use=lambda hour: None if hour < 20 else 0.0, model=L40S)),
]  # fmt: skip
ASKED = ("idler", "dark", "replicas", "sharers", "best", "nobody")


@dataclass(frozen=True)
class Saved:
    """What is told of the whole fleet, and what is asked of parts of it."""

    whole: SavingsReport
    tenants: dict[str, SavingsReport]
    workloads: dict[str, SavingsReport]
    periods: list[SavingsReport]
    """Of `low`: one day, and two others."""
    lax: SavingsReport
    reproduced: list[dict[str, Any]]
    nothing: SavingsReport

    def of(self, tenant: str) -> tuple[Recommendation, ...]:
        return tuple(one for one in self.whole.recommendations if one.tenant == tenant)

    def only(self, tenant: str) -> Recommendation:
        (one,) = self.of(tenant)
        return one

    def waste(self, tenant: str) -> Waste:
        assert self.whole.waste is not None
        return dict(self.whole.waste.by_tenant)[tenant]

    def why_not(self, tenant: str) -> list[str]:
        return [one.reason for one in self.whole.not_judged if one.tenant == tenant]


@pytest.fixture(scope="module")
def saved(shared_store: Store) -> Saved:
    """Answers alone: tests that come after it may fill the store with something else."""
    store = emptied(shared_store)
    run(store, FLEET, HOURS, [*RATES, *PARTITION_RATES])
    whole = savings(store)
    one_day, two_days = (parse_period(text, "UTC") for text in ("2026-10-01", "2026-10-02..2026-10-04"))
    (shown,) = (one for one in whole.recommendations if one.tenant == "it's")
    return Saved(
        whole=whole,
        tenants={tenant: savings(store, tenant=tenant) for tenant in ASKED},
        workloads={name: savings(store, workload=name) for name in drawn([job.name for job in FLEET], 0.1)},
        periods=[savings(store, period, tenant="low") for period in (one_day, two_days)],
        lax=savings(store, None, Rules(min_coverage=Decimal("0.8")), tenant="partly"),
        reproduced=store.rows(shown.reproduce),
        nothing=savings(store, tenant="idler", workload="dark"),
    )


def test_a_holder_of_an_idle_device_is_advised_to_release_it(saved: Saved) -> None:
    one = saved.only("idler")
    assert (one.kind, one.confidence, one.still_held, one.priced_by) == (
        "reclaim", "high", True, "the price of the idle hours",
    )  # fmt: skip
    assert as_json((one.past_amount, one.monthly_amount)) == [
        "252.00",
        "252.00",
    ]  # 90 h x 2.80: no week, so it is not scaled up
    assert "idle for up to 90 consecutive hours, with 10.0 GiB of memory in use" in one.what
    assert as_json(one.evidence["idle"]) == {
        "hours": 90,
        "longest_hours": 90,
        "stretches": 1,
        "since": "2026-10-01T10:00:00.000Z",
        "until": "2026-10-05T04:00:00.000Z",
    }
    assert as_json([one.evidence[name] for name in ("hours", "p50", "p95", "max_memory_bytes", "coverage")]) == [
        "100.000", "0.000", "0.900", 10 * GIB, "1.000000",
    ]  # fmt: skip


def test_an_unmetered_device_is_never_idle(saved: Saved) -> None:
    assert saved.of("dark") == ()
    (unknown,) = [one for one in saved.whole.not_judged if one.tenant == "dark"]
    assert unknown.document()["reason"] == unknown.reason
    assert "said" not in unknown.document()
    assert as_json((unknown.workload, unknown.hours, unknown.coverage, unknown.cost)) == as_json(
        ("dark", Decimal("100.000"), Decimal("0.100000"), Decimal("280.00"))
    )
    assert unknown.reason == "metered for 10.0% of the allocated time, less than 90%"


def test_an_ended_workload_gets_no_advice_but_its_waste_is_reported(saved: Saved) -> None:
    assert saved.of("ended") == ()
    assert saved.why_not("ended") == []
    waste = saved.waste("ended")
    assert as_json((waste.idle_cost, waste.covered)) == ["30.80", "0.00"]  # ten hours, and a tenth of ten, at 2.80
    assert as_json(waste.document()["not_covered"]) == [
        {"reason": "ended", "what": "from workloads that ended and did not recur", "amount": "28.00"},
        {"reason": "in_use", "what": "alongside usage, too little for a recommendation", "amount": "2.80"},
    ]


def test_a_missing_price_leaves_the_amounts_and_not_the_hours(saved: Saved) -> None:
    waste = saved.waste("free")
    assert as_json((waste.idle_gpu_hours, waste.idle_cost, waste.unpriced_gpu_hours)) == ["100.000", None, "100.000"]


def test_unmetered_time_is_beside_the_waste_and_never_in_it(saved: Saved) -> None:
    waste = saved.waste("dark")  # ten hours at 0.9, then none measured
    assert as_json((waste.idle_cost, waste.unmetered_gpu_hours, waste.unmetered_cost)) == ["2.80", "90.000", "252.00"]
    assert waste.not_covered == {"not_judged": waste.idle_cost}


def test_near_idle_is_not_idle(saved: Saved) -> None:
    assert saved.of("near-idle") == ()


def test_six_hours_at_1_percent_are_idle(saved: Saved) -> None:
    one = saved.only("six-hours")
    assert as_json((one.past_amount, one.monthly_amount)) == ["5.94", "5.94"]  # 6 h x 0.99 idle at 1.00


def test_a_time_slice_is_not_reclaimed_and_a_mig_instance_is(saved: Saved) -> None:
    one = saved.only("parts")
    assert (one.workloads, as_json(one.past_amount)) == (("instance",), "11.20")  # 28 h x 2.80 / 7
    assert "no memory in use" in one.what


def test_of_a_gang_only_the_idle_devices_count(saved: Saved) -> None:
    one = saved.only("gang")
    assert [device["device_id"] for device in one.devices] == ["gang GPU-1"]
    assert one.what.startswith(f"release 1 of 2 {H100}")
    assert as_json((one.past_amount, one.monthly_amount)) == ["280.00", "280.00"]


def test_without_a_price_the_amount_is_unknown_and_comes_last(saved: Saved) -> None:
    assert saved.only("free").monthly_amount is None
    assert [one.tenant for one in saved.whole.recommendations if one.monthly_amount is None] == ["free"]
    assert saved.whole.recommendations[-1].tenant == "free"
    sums = {one.tenant: (as_json(one.monthly_amount), one.unpriced) for one in saved.whole.by_tenant}
    assert (sums["six-hours"], sums["free"]) == (("5.94", 0), ("0", 1))
    assert [*sums][-1] == "free"


# A smaller MIG profile


def test_low_use_and_little_memory_fit_a_smaller_instance(saved: Saved) -> None:
    one = saved.only("low")  # 7 GiB and a fifth are 9.02 GB, a slice is 14.3 %
    assert (one.kind, one.confidence, one.priced_by) == (
        "smaller_profile", "medium", "in proportion: 1/7 of the device",
    )  # fmt: skip
    assert one.what.startswith(f"a 1g.10gb MIG instance of {H100} instead of the whole device: p99 10% of it")
    assert as_json((one.past_amount, one.monthly_amount)) == ["240.00", "240.00"]  # 6/7 of 100 h x 2.80


def test_the_smallest_profile_that_fits_is_taken(saved: Saved) -> None:
    found = {job.name: [one.what.split()[1] for one in saved.of(job.name)] for job, _ in PROFILES}
    assert found == {job.name: [profile] if profile else [] for job, profile in PROFILES}


def test_unknown_memory_is_not_assumed_to_fit(saved: Saved) -> None:
    assert saved.of("unknown") == ()
    assert saved.why_not("unknown") == ["memory use is unknown and might not fit a smaller MIG instance"]


def test_the_rate_cards_own_price_of_a_profile_is_used(saved: Saved) -> None:
    one = saved.only("own-price")
    assert one.priced_by == "the rate card's h100-1g-own-price at 4.9 per GPU-hour, 1/7 of it"
    assert as_json((one.past_amount, one.monthly_amount)) == ["210.00", "210.00"]  # 0.70 an hour instead of 2.80


def test_a_profile_that_costs_more_is_not_recommended(saved: Saved) -> None:
    assert saved.of("dear") == ()


def test_an_instance_is_measured_by_what_it_is(saved: Saved) -> None:
    one = saved.only("third")  # a fifth of three slices is less than one
    assert "1g.10gb" in one.what
    assert "instead of 3g.40gb" in one.what
    assert as_json(one.past_amount) == "80.00"  # 2 of 3 sevenths of 100 h x 2.80


def test_profiles_of_models() -> None:
    assert [profile.name for profile in mig_profiles("NVIDIA A30", 24 * GIB)] == ["1g.6gb", "2g.12gb", "4g.24gb"]
    assert mig_profiles("NVIDIA A10", 24 * GIB) == mig_profiles("NVIDIA A1000", 80 * GIB) == ()


@pytest.mark.parametrize(
    ("model", "whole"),
    [
        ("NVIDIA A30", "4g.24gb"), ("NVIDIA A100-SXM4-40GB", "7g.40gb"), ("NVIDIA A100-SXM4-80GB", "7g.80gb"),
        ("NVIDIA H100 80GB HBM3", "7g.80gb"), ("NVIDIA H100 NVL", "7g.94gb"), ("NVIDIA H200", "7g.141gb"),
        ("NVIDIA GH200 120GB", "7g.96gb"), ("NVIDIA GH200 144G HBM3e", "7g.144gb"), ("NVIDIA B200", "7g.180gb"),
    ],
)  # fmt: skip
def test_each_profile_is_a_part_of_the_whole_device(model: str, whole: str) -> None:
    slices, memory = (int(number) for number in whole.removesuffix("gb").split("g."))
    profiles = mig_profiles(model, memory * GIB)
    assert profiles[-1].name == whole
    assert {profile.of for profile in profiles} == {slices}
    for profile in profiles:
        assert profile.name == f"{profile.slices}g.{profile.memory_bytes // 10**9}gb"


# Fewer GPUs, and sharing


def test_fewer_gpus_that_still_have_the_compute_and_the_memory(saved: Saved) -> None:
    found = saved.of("four")
    assert {one.kind for one in found} == {"fewer_gpus"}
    gone = {f"j{n}": 4 - needed for n, (_, _, needed) in enumerate(FEWER) if needed}
    assert {one.workloads[0]: (one.past_amount, one.monthly_amount) for one in found} == {
        name: (gpus * 100, gpus * 100) for name, gpus in gone.items()
    }


def test_an_unmetered_gpu_prevents_a_proposal(saved: Saved) -> None:
    assert saved.of("blind") == ()
    assert saved.why_not("blind") == ["metered for 75.0% of the allocated time, less than 90%"]


def test_gpus_of_two_models_and_parts_of_gpus_do_not_stand_in_for_each_other(saved: Saved) -> None:
    assert saved.of("two-models") == saved.of("two-parts") == ()
    assert saved.why_not("two-models") == saved.why_not("two-parts") == [], "they are judged"


def test_fewer_replicas_of_one_name(saved: Saved) -> None:
    one = saved.only("replicas")
    assert (one.kind, one.workloads) == ("fewer_gpus", ("vllm-0", "vllm-1"))
    assert one.what.startswith(f"1 instead of 2 workloads vllm* on {L40S}: their p95 values add up to 0.70 GPUs")
    assert as_json((one.past_amount, one.monthly_amount)) == ["100.00", "100.00"]


def test_what_are_no_replicas_of_each_other_stays(saved: Saved) -> None:
    assert [one for n in range(len(NO_REPLICAS)) for one in saved.of(f"replicas-{n}")] == []


def test_replicas_are_recognized_by_their_names() -> None:
    assert replica_name("vllm-0") == replica_name("vllm-11") == "vllm"
    assert replica_name("vllm-7d9f8b6c5d-x2x7z") == "vllm"
    assert replica_name("llama") == replica_name("0e7c1c4e-9a52-4c0e-8d55-5d5cbb0b8a11") == ""
    assert replica_name("4711") == ""


def test_low_use_of_one_tenant_can_share_a_device(saved: Saved) -> None:
    one = saved.only("sharers")
    assert (one.kind, one.workloads, one.confidence) == ("time_slicing", ("alpha", "beta"), "low")
    assert as_json((one.past_amount, one.monthly_amount)) == ["92.00", "92.00"]  # one of two, for 92 hours in common


def test_who_cannot_share_stays(saved: Saved) -> None:
    tenants = ["left", *(f"sharers-{n}" for n in range(len(NO_SHARERS)))]
    found = [one.kind for tenant in tenants for one in saved.of(tenant)]
    assert "time_slicing" not in found
    assert saved.of("elsewhere") == ()


# What holds for all recommendations


def test_a_workload_gets_its_best_recommendation_alone(saved: Saved) -> None:
    report = saved.tenants["best"]
    assert amounts(report) == [["smaller_profile", "240.00", "240.00"], ["reclaim", "82.00", "82.00"]]
    (tenant,) = report.by_tenant
    assert as_json((tenant.monthly_amount, tenant.past_amount)) == ["322.00", "322.00"]
    named = [workload for one in saved.whole.recommendations for workload in one.workloads]
    assert len(named) == len({*named})


def test_an_id_is_the_same_in_another_period_and_for_another_amount(saved: Saved) -> None:
    first, second = (only(report) for report in saved.periods)
    assert first.id == second.id
    assert as_json((first.past_amount, second.past_amount)) == ["57.60", "115.20"]


def test_the_statement_computes_the_evidence_again(saved: Saved) -> None:
    evidence = saved.only("it's").evidence
    (row,) = saved.reproduced
    assert (row["hours"], row["coverage"]) == (evidence["hours"], evidence["coverage"])
    assert (row["p50"], row["p95"], row["p99"]) == tuple(float(evidence[name]) for name in ("p50", "p95", "p99"))
    assert as_json([evidence["p50"], evidence["p95"], evidence["p99"]]) == ["0.000", "0.000", "0.900"]
    assert (row["idle_hours"], row["max_memory_bytes"]) == (56, evidence["max_memory_bytes"])
    assert row["idle_cost"] == pytest.approx(56 * 2.8 + 2.5 * 0.1 * 2.8)  # and a tenth of the busy hours
    assert row["cost"] == pytest.approx(58.5 * 2.8)


def test_coverage_can_be_asked_for(saved: Saved) -> None:
    assert [one.coverage for one in saved.whole.not_judged if one.tenant == "partly"] == [Decimal("0.800000")]
    assert amounts(saved.lax) == [["reclaim", "80.00", "80.00"]]
    assert saved.lax.not_judged == ()


@seldom(6, "the report on one tenant or workload")
def test_the_report_on_one_tenant_or_workload_equals_its_part_of_the_whole_report(saved: Saved) -> None:
    whole = saved.whole
    reported = {one.kind for one in whole.recommendations if one.tenant in ASKED}
    assert reported == {"reclaim", "smaller_profile", "fewer_gpus", "time_slicing"}
    for tenant, one in saved.tenants.items():
        assert one.recommendations == saved.of(tenant)
        assert one.not_judged == tuple(each for each in whole.not_judged if each.tenant == tenant)
        assert one.by_tenant == tuple(each for each in whole.by_tenant if each.tenant == tenant)
        assert one.waste and whole.waste
        assert one.waste.by_tenant == tuple(each for each in whole.waste.by_tenant if each[0] == tenant)
        assert one.waste.unallocated_cost is None
    for workload, one in saved.workloads.items():
        assert one.recommendations == tuple(each for each in whole.recommendations if workload in each.workloads)
        assert one.not_judged == tuple(each for each in whole.not_judged if each.workload == workload)
        assert one.waste and one.waste.unallocated_cost is None
    assert saved.nothing.recommendations == ()


# Anomalies


def judged(store: Store, rows: Sequence[Row], days: int, first: date = date(2026, 9, 1), run: int = 7) -> AnomalyReport:
    fill(store, rows, run, closed=whole_days(first, days))
    return anomalies(store)


def flags(report: AnomalyReport) -> list[tuple[str, str, str]]:
    return [(str(one.day), one.tenant or one.subject, one.direction) for one in report.flagged]


def test_a_day_far_above_the_fortnight_before_is_flagged(books: Store) -> None:
    report = judged(books, history([*["100"] * 14, "300"]), 15)
    (one,) = report.flagged
    assert as_json((one.cost, one.expected, one.low, one.high, one.score)) == [
        "300.000000000", "100.000000000", "82.500000000", "117.500000000", "40.00",
    ]  # fmt: skip
    assert (str(one.day), one.direction, one.basis) == ("2026-09-15", "high", "14 of the 14 days before")
    assert [(part.name, as_json(part.cost)) for part in one.contributors] == [("physics-15", "300.000000000")]
    # Seven days each of a tenant and the platform come first.
    assert report.reasons() == {"fewer than 7 days of history": 14}
    assert report.judged == 16


def test_who_sees_a_tenant_alone_has_no_days_of_the_platform(books: Store) -> None:
    judged(books, history([*["100"] * 14, "300"]), 15)
    vera = Principal("vera", frozenset({Role.tenant}), frozenset({"physics"}))
    with Stores(books).scoped_to(vera) as hers:
        report = anomalies(hers)
    assert flags(report) == [("2026-09-15", "physics", "high")]
    assert (report.judged, {one.subject for one in report.not_judged}) == (8, {"tenant"})


@pytest.mark.parametrize(("cost", "direction"), [("117.5", None), ("117.6", "high"), ("82.5", None), ("82.4", "low")])
def test_the_band_is_where_it_says(books: Store, cost: str, direction: str | None) -> None:
    report = judged(books, history([*["100"] * 14, cost]), 15)
    assert flags(report) == ([("2026-09-15", "physics", direction)] if direction else [])


def test_restless_costs_have_a_wide_band(books: Store) -> None:
    # The fourteen days before have 60 and 80 twice or thrice, 100, 120 and 140 thrice: the median is 100, the median
    # deviation 20, a spread 29.652.
    restless = ["60", "80", "100", "120", "140"] * 3
    assert flags(judged(books, history([*restless, "203.7"]), 16)) == []
    assert flags(judged(books, history([*restless, "203.9"]), 16, run=8)) == [("2026-09-16", "physics", "high")]


def test_seven_days_are_needed(books: Store) -> None:
    report = judged(books, history([*["100"] * 6, "900"]), 7)
    assert flags(report) == []
    assert ("2026-09-07", "fewer than 7 days of history") in [(str(o.day), o.reason) for o in report.not_judged]
    assert flags(judged(books, history([*["100"] * 7, "900"]), 8, run=8)) == [("2026-09-08", "physics", "high")]


def test_a_new_tenants_first_days_are_not_judged_by_days_before_it_came(books: Store) -> None:
    report = judged(books, [*history(["100"] * 20), *history(["80"] * 3, date(2026, 9, 18), "chem")], 20)
    assert flags(report) == []
    assert [o.reason for o in report.not_judged if o.tenant == "chem"] == ["fewer than 7 days of history"] * 3


def test_a_tenant_that_leaves_is_flagged_low_at_zero(books: Store) -> None:
    report = judged(books, history(["100"] * 14), 15)
    (one,) = report.flagged
    assert as_json((str(one.day), one.direction, one.cost)) == ["2026-09-15", "low", "0.000000000"]


def test_a_sunday_is_compared_to_sundays(books: Store) -> None:
    first = date(2026, 9, 7)  # a Monday
    week = [*["100"] * 5, "20", "20"]
    unchanged = judged(books, history([*week * 5], first), 35, first)
    assert [one for one in flags(unchanged) if one[0] >= "2026-10-05"] == []
    loud = judged(books, history([*week * 4, *["100"] * 6, "60"], first), 35, first, run=8)
    (one,) = [one for one in loud.flagged if one.day >= date(2026, 10, 11)]
    assert (str(one.day), as_json(one.expected), one.basis) == ("2026-10-11", "20.000000000", "4 earlier Sundays")


def test_a_day_that_is_not_closed_is_neither_judged_nor_looked_back_to(books: Store) -> None:
    rows = history([*["100"] * 14, "900"])
    fill(books, rows, closed=whole_days(date(2026, 9, 1), 15)[:-1])
    report = anomalies(books)
    assert flags(report) == []
    assert [o.reason for o in report.not_judged if str(o.day) == "2026-09-15"] == [
        "not every hour of the day is closed"
    ] * 2
    close_hours(books, whole_days(date(2026, 9, 1), 15)[-1:])
    assert flags(anomalies(books)) == [("2026-09-15", "physics", "high")]


def test_a_missing_price_is_no_cost_of_zero(books: Store) -> None:
    report = judged(books, history([*["100"] * 14, None, "100"]), 16)
    assert flags(report) == []
    assert [o.reason for o in report.not_judged if str(o.day) == "2026-09-15" and o.tenant] == ["a price is missing"]


def test_a_day_of_25_hours_may_cost_a_25th_more(books: Store) -> None:
    apply_rate_card(
        books, parse_rate_card({"currency": "EUR", "timezone": "Europe/Berlin", "rates": NO_PRICES}), "me", "", NOON
    )
    start = at("2026-10-10 22:00")
    hours = [start + timedelta(hours=n) for n in range(24 * 15 + 1)]
    fill(books, [Row(hour, "physics", used=str(HOUR_MS), price="10") for hour in hours])
    report = anomalies(books, threshold=Decimal("0.5"))
    assert flags(report) == []
    cheap = [*hours[: 24 * 14], *hours[24 * 14 : 24 * 14 + 24]]  # an hour of the long day free: flagged at that width
    fill(books, [Row(hour, "physics", used=str(HOUR_MS), price="10") for hour in cheap], run=8, closed=hours)
    (one,) = anomalies(books, threshold=Decimal("0.5")).flagged
    assert as_json((str(one.day), one.cost, one.expected)) == ["2026-10-25", "240.000000000", "250.000000000"]


def test_unallocated_capacity_is_judged_like_a_tenant(books: Store) -> None:
    rows = [
        Row(at(f"2026-09-{day:02d} 12:00"), unallocated=HOUR_MS, price="50" if day < 15 else "90", pool="train")
        for day in range(1, 16)
    ]
    (one,) = judged(books, rows, 15).flagged
    assert (one.subject, one.tenant, as_json(one.cost)) == ("unallocated", "", "90.000000000")
    assert [(part.name, as_json(part.cost)) for part in one.contributors] == [("H100 · train", "90.000000000")]


def test_the_five_workloads_that_cost_most_are_named(books: Store) -> None:
    noon = at("2026-09-15 12:00")
    crowd = [
        Row(
            noon,
            "physics",
            device=f"g{n}",
            used=str(HOUR_MS // 2),
            idle=str(HOUR_MS // 4),
            unmetered=HOUR_MS // 4,
            price=f"{n}00",
            workload=f"w{n}",
        )
        for n in range(1, 8)
    ]
    (one,) = judged(books, [*history(["100"] * 14), *crowd], 15).flagged
    assert [(part.name, Fraction(part.cost)) for part in one.contributors] == [
        (f"w{n}", n * 100) for n in (7, 6, 5, 4, 3)
    ]
    assert Fraction(one.cost) == 2800
