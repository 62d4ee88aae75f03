"""Two months of a small, drawn cluster in which everything meets that a rate card, an account or a source can say.

September is issued and corrected since; October is closed and a draft, and its last Sunday has 25 hours.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.accounts.credits import Credit, add_credit, reverse_credit
from billing.accounts.prepaid import Grant, add_grant, revoke_grant
from billing.close import close, hours
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.invoicing.invoices import credit, issue_all, void
from billing.parties.applied import apply_parties
from billing.parties.details import parse_parties
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from billing.tenants import apply_mapping, parse_mapping
from tests.billing.facts import put
from tests.billing.hand_ledger import at
from warehouse.store import Store

ZONE = "Europe/Berlin"
SEPTEMBER, OCTOBER = (parse_month(month, ZONE) for month in ("2026-09", "2026-10"))
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": [{"seconds": 60, "effective_to": "2026-10"}, {"seconds": 120, "effective_from": "2026-10"}],
    "priority_classes": {"high": {"from": 100}, "low": {"to": 0}},
    "rates": [
        {
            "sku": "h100",
            "match": {"model": "H100*", "pool": "train"},
            "price_per_gpu_hour": "3.00",
            "effective_to": "2026-10-10",
        },
        {
            "sku": "h100",
            "match": {"model": "H100*", "pool": "train"},
            "price_per_gpu_hour": "3.21",
            "effective_from": "2026-10-10",
        },
        {
            "sku": "h100-night",
            "match": {"model": "H100*", "pool": "train", "tenant": "chem"},
            "price_per_gpu_hour": "2.10",
            "windows": [
                {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "20:00", "to": "08:00"},
                {"days": ["sat", "sun"]},
            ],
        },
        {
            "sku": "h100-chem",
            "match": {"model": "H100*", "pool": "train", "tenant": "chem"},
            "price_per_gpu_hour": "2.93",
        },
        {
            "sku": "spot",
            "match": {"model": "H100*", "pool": "train", "preemptible": True, "priority": "low"},
            "price_per_gpu_hour": "1.20",
        },
        {
            "sku": "urgent",
            "match": {"model": "H100*", "pool": "train", "priority": "high"},
            "price_per_gpu_hour": "4.05",
        },
        {"sku": "any-a", "match": {"model": "A*"}, "price_per_gpu_hour": "9.99"},
        {"sku": "mig-1g", "match": {"model": "A100", "partition_profile": "1g.*"}, "price_per_gpu_hour": "1.61"},
        {
            "sku": "a100",
            "match": {"model": "A100"},
            "price_per_gpu_hour": "1.40",
            "effective_to": "2026-10-30T15:20:00Z",
        },
        {
            "sku": "a100",
            "match": {"model": "A100"},
            "price_per_gpu_hour": "1.47",
            "effective_from": "2026-10-30T15:20:00Z",
        },
        {
            "sku": "l40s-web",
            "match": {"model": "L40S", "queue": "web"},
            "price_per_gpu_hour": "0.97",
            "effective_to": "2026-10-19T09:20:00Z",
        },
        {
            "sku": "l40s-web",
            "match": {"model": "L40S", "queue": "web"},
            "price_per_gpu_hour": "1.02",
            "effective_from": "2026-10-19T09:20:00Z",
        },
        {"sku": "l40s", "match": {"model": "L40S"}, "price_per_gpu_hour": "1.13"},
        {"sku": "any-l", "match": {"model": "L*"}, "price_per_gpu_hour": "9.98"},
        {"sku": "t4", "match": {"model": "T4"}, "price_per_gpu_hour": "0.5", "effective_to": "2026-10-24"},
        {"sku": "t4", "match": {"model": "T4"}, "price_per_gpu_hour": "0", "effective_from": "2026-10-24"},
    ],
    "commitments": [
        {"name": "reserved", "tenant": "chem", "sku": "h100*", "gpus": "0.2", "price_per_gpu_hour": "2.00"},
        {"name": "more", "tenant": "chem", "sku": "*", "gpus": "0.1", "price_per_gpu_hour": "1.10"},
        {
            "name": "slice",
            "tenant": "bio",
            "sku": "a100",
            "gpus": "0.05",
            "price_per_gpu_hour": "0.90",
            "effective_from": "2026-10",
        },
    ],
    "discounts": [
        {"name": "contract", "percent": "10", "match": {"tenant": "phys"}},
        {"name": "volume", "tiers": [{"from": "60", "percent": "5"}, {"from": "120", "percent": "12"}]},
        {
            "name": "long",
            "per": "session",
            "measure": "hours",
            "match": {"queue": "batch"},
            "tiers": [{"from": "8", "percent": "3"}, {"above": "16", "percent": "7"}],
        },
        {
            "name": "bulk",
            "per": "session",
            "mode": "whole",
            "match": {"queue": "day"},
            "tiers": [{"from": "2", "percent": "1"}, {"from": "6", "percent": "2"}],
        },
    ],
    "components": [
        {"sku": "energy", "kind": "energy", "price": "0.31", "pue": "1.20"},
        {"sku": "hbm", "kind": "memory", "price": "0.01", "match": {"tenant": "bio"}},
    ],
    "idle_policy": [
        {"pool": "test*", "share": "platform"},
        {"pool": "train", "share": "guaranteed"},
        {"pool": "mig", "share": "evenly"},
        {"share": "allocated_cost"},
    ],
    "taxes": [
        {"name": "VAT", "percent": "0", "tenant": "bio"},
        {"name": "VAT", "percent": "19"},
        {"name": "levy", "percent": "1.5"},
    ],
    "invoice_currencies": [{"tenant": "kyoto", "currency": "JPY"}],
    "exchange_rates": [
        {"month": "2026-09", "currency": "JPY", "rate": "161.5"},
        {"month": "2026-10", "currency": "JPY", "rate": "163.25"},
    ],
}
MAPPING: dict[str, Any] = {
    "timezone": ZONE,
    "unmapped_owner": "",
    "rules": [
        {"match": {"namespace": "web-*"}, "tenant": "web", "cost_center": "4711"},
        {
            "match": {"tenant": "hpc", "project": "acc-17"},
            "tenant": "phys",
            "project": "lattice",
            "effective_to": "2026-10-12",
        },
        {"match": {"tenant": "hpc", "project": "acc-17"}, "tenant": "bio", "effective_from": "2026-10-12"},
        {"match": {"workload": "w[0-3]-1", "tenant": "chem"}, "cost_center": "13"},
        {"match": {"tenant": "chem"}, "cost_center": "12"},
        {"match": {"cluster": "west", "queue": "night"}, "tenant": "kyoto"},
    ],
}
ENERGY: dict[str, Any] = {
    "timezone": ZONE,
    "idle_power": [{"model": "H100*", "watts": "70"}, {"model": "A100", "watts": "30", "effective_from": "2026-10-08"}],
    "intensity": [
        {"cluster": "west", "grams_per_kwh": "450", "pue": "1.4", "source": "the west grid"},
        {"pool": "train", "hourly": ["290", "310.5"] * 12, "effective_from": "2026-10-03T00:00", "source": "meter"},
        {"pool": "train", "grams_per_kwh": "300", "source": "the grid", "effective_to": "2026-10-15"},
        {"pool": "train", "grams_per_kwh": "200", "source": "the grid", "effective_from": "2026-10-15"},
    ],
}
# device: (cluster, node, model, pool, units)
DEVICES = {
    **{f"h{n}": ("", f"n{n // 2}", "H100-SXM", "train", 1) for n in range(4)},
    "m0": ("", "n2", "A100", "mig", 7),
    "m1": ("", "n2", "A100", "mig", 7),
    **{f"l{n}": ("west", "w0", "L40S", "web", 100) for n in range(3)},
    "t0": ("west", "w1", "L40S", "test-1", 1),
    "x0": ("west", "w1", "TPU", "", 1),
}
FIRST = {"x0": "2026-10-10 06:30"}
"""It has no price, so that it may not be there before the month that is issued ends."""
PAYERS = (
    ("chem", "a", "batch"),
    ("chem", "b", "day"),
    ("phys", "a", "batch"),
    ("hpc", "acc-17", "batch"),
    ("bio", "p", "day"),
    ("", "web-shop", "web"),
    ("", "", "night"),
    ("", "lost", "day"),
    ("kyoto", "k", "day"),
)


def fill_whole_books(store: Store) -> None:
    """They are drawn by a fixed seed: a change of this file changes them, and then the golden files."""
    begin = at("2026-08-01 00:00")
    apply_rate_card(store, parse_rate_card({**CARD, "discounts": CARD["discounts"][:1]}), "ann", "first", begin)
    apply_rate_card(store, parse_rate_card(CARD), "ann", "more discounts", begin + timedelta(days=1))
    apply_mapping(store, parse_mapping({**MAPPING, "rules": MAPPING["rules"][1:]}), "ann", "whose it is", begin)
    apply_mapping(store, parse_mapping(MAPPING), "ann", "web, too", begin + timedelta(days=1))
    apply_energy_settings(store, parse_energy_settings({"timezone": ZONE, "idle_power": []}), "ann", "none", begin)
    apply_energy_settings(store, parse_energy_settings(ENERGY), "ann", "measured", begin + timedelta(days=1))
    budgets = [
        {"tenant": "chem", "amount": "150.00", "thresholds": [{"percent": "50"}, {"percent": "80"}]},
        {"tenant": "chem", "project": "b", "amount": "61.00"},
        {
            "tenant": "phys",
            "project": "a",
            "amount": "40.00",
            "thresholds": [{"percent": "100"}, {"percent": "130", "of": "forecast"}],
        },
        {"tenant": "phys", "amount": "333.00", "effective_from": "2026-10"},
        {"tenant": "bio", "amount": "0.05"},
    ]
    low = [{"tenant": "phys", "amount": "500.00"}, {"tenant": "bio", "amount": "1.00"}]
    for number, more in ((1, {}), (2, {"low_balances": low})):
        file = {"currency": "EUR", "budgets": budgets[: 3 * number], **more}
        apply_budgets(store, parse_budgets(file), "ann", f"plan {number}", begin + timedelta(days=number))
    seller = {"name": "A GmbH", "address": ["Bonn"]}
    buyer = {"tenant": "chem", "name": "Chemistry", "address": ["Ulm"], "purchase_order": "PO-7"}
    apply_parties(store, parse_parties({"seller": [seller], "buyers": [buyer]}), "ann", "who", begin)
    grants = (
        ("g1", "phys", "30.00", "2026-09-01 00:00", "2026-10-20 04:44:44"),
        ("g2", "phys", "25.00", "2026-10-05 07:23:20", "2027-01-01 00:00"),
        ("g3", "phys", "9.00", "2026-09-01 00:00", "2027-01-01 00:00"),
        ("g4", "bio", "4.00", "2026-10-01 00:00", "2026-10-15 12:34:56"),
        ("g5", "bio", "400.00", "2026-10-08 11:10", "2026-10-15 12:34:56"),
        ("g6", "chem", "7.77", "2026-09-29 20:20", "2026-12-01 00:00"),
        ("g7", "web", "1.00", "2026-09-01 00:00", "2026-09-30 03:03"),
    )
    for name, tenant, amount, starts, ends in grants:
        more = {"currency": "EUR", "author": "ann", "reason": "paid before"}
        one = Grant(name, tenant, Decimal(amount), starts_at=at(starts), expires_at=at(ends), **more)
        add_grant(store, one, begin)
    revoke_grant(store, "g3", "ann", "sent back", at("2026-10-18 12:17:33"))
    credits = (
        ("c1", "chem", "2026-09", "2.50", ""),
        ("c2", "phys", "2026-10", "1.75", "a"),
        ("c3", "bio", "2026-09", "-0.40", ""),
    )
    for name, tenant, month, amount, project in credits:
        given = Credit(tenant, month, Decimal(amount), "EUR", "sorry", project=project, author="ann", id=name)
        add_credit(store, given, at("2026-09-15 00:00"))
    dice = random.Random(20261123)
    _put_devices(store)
    late = _put_jobs(store, dice)
    put_spacious(store)
    put_contradictions(store)
    close(store, SEPTEMBER.end + timedelta(hours=3), at("2026-10-02 00:00"))
    first = issue_all(store, SEPTEMBER, at("2026-10-02 00:00"), actor="ann")
    void(store, str(first[-1].number), at("2026-10-02 01:00"), "ann", "wrong address")
    issue_all(store, SEPTEMBER, at("2026-10-02 02:00"), actor="ann")
    put(store, "events", late)
    reverse_credit(store, "c1", "ann", "not due", at("2026-10-03 00:00"))
    credit(store, str(first[0].number), Decimal("0.10"), at("2026-10-04 00:00"), "ann", "goodwill")
    with pytest.MonkeyPatch.context() as patch:  # many portions, each computed apart
        patch.setattr(hours, "PORTION_WEIGHT", 40_000)
        patch.setattr(hours, "SMALL_WEIGHT", 0)
        close(store, OCTOBER.end + timedelta(days=1), at("2026-11-03 00:00"))


def drawn_policies(number: int) -> dict[str, Any]:
    """The card with other policies, of which any may meet any: each kind with each measure, mode, bound and glob."""
    dice = random.Random(f"policies {number}")

    def since() -> dict[str, str]:
        return dice.choice(({}, {}, {}, {"effective_from": "2026-10"}, {"effective_to": "2026-10"}))

    def some(*keys: str) -> dict[str, Any]:
        values = {
            "tenant": ("phys", "chem", "?i*"),
            "queue": ("batch", "[d-n]*"),
            "sku": ("h100*", "a100"),
            "project": ("a", "?"),
        }
        chosen = dice.sample(keys, dice.choice((0, 1, 1, 2)))
        return {key: dice.choice(values[key]) for key in chosen} | (
            {"preemptible": True} if dice.random() < 0.1 else {}
        )

    def tiers(hours: tuple[str, ...]) -> list[dict[str, str]]:
        bounds = sorted(dice.sample(hours, dice.randrange(1, 4)), key=Decimal)
        return [
            {dice.choice(("from", "above")): one, "percent": dice.choice(("1", "7.5", "20", "100"))} for one in bounds
        ]

    discounts: list[dict[str, Any]] = []
    for n in range(dice.randrange(4)):
        one = {"name": f"d{n}", "match": some("tenant", "queue", "sku", "project"), **since()}
        if dice.random() < 0.3:
            discounts.append({**one, "percent": dice.choice(("3", "12.5", "100"))})
        elif dice.random() < 0.4:
            discounts.append(
                {**one, "mode": dice.choice(("whole", "graduated")), "tiers": tiers(("0", "5", "10.5", "60", "200"))}
            )
        else:
            one |= {
                "per": "session",
                "measure": dice.choice(("hours", "gpu_hours")),
                "mode": dice.choice(("whole", "graduated")),
            }
            discounts.append({**one, "tiers": tiers(("0", "1", "2", "4", "9", "16"))})
    commitments = [
        {"name": f"q{n}", "tenant": dice.choice(("chem", "bio", "phys", "quiet")),
         "sku": dice.choice(("*", "h100*", "a100", "l40s")),
         "gpus": dice.choice(("0.03", "0.3", "2")), "price_per_gpu_hour": dice.choice(("0.31", "1.07", "0")), **since()}
        for n in range(dice.randrange(4))
    ]  # fmt: skip
    components = [
        {"sku": f"e{n}", "kind": "energy", "price": dice.choice(("0.31", "1.7")), "pue": dice.choice(("1", "1.45")),
         "match": some("tenant", "queue", "sku"), **since()}
        if dice.random() < 0.5
        else {"sku": f"m{n}", "kind": "memory", "price": "0.013", "match": some("tenant", "project", "sku"), **since()}
        for n in range(dice.randrange(3))
    ]  # fmt: skip
    shares = ("platform", "allocated_cost", "evenly", "guaranteed")
    pools = [pool for pool in ("train", "t*", "[m-w]*", "mig", "*") if dice.random() < 0.5]
    taxes = [{"name": "VAT", "percent": dice.choice(("7", "19")), "tenant": "p*"}, {"name": "VAT", "percent": "0.5"}]
    taxes.append({"name": "levy", "percent": "1.5", "tenant": dice.choice(("chem", "*"))})
    return {
        **CARD,
        "minimum_seconds": dice.choice((0, 60, 600, 7200, [{"seconds": 1200, "effective_from": "2026-10"}])),
        "discounts": discounts,
        "commitments": commitments,
        "components": components,
        "idle_policy": [{"pool": pool, "share": dice.choice(shares)} for pool in pools] or "platform",
        "taxes": dice.sample(taxes, dice.randrange(4)),
        "invoice_currencies": dice.choice(([], [{"tenant": "phys", "currency": "JPY"}], CARD["invoice_currencies"])),
    }


def _put_devices(store: Store) -> None:
    """They come on the last days of September; some are away for a while, one leaves, one moves to another pool."""
    rows = []
    for name, (cluster, node, model, pool, units) in DEVICES.items():
        about = {"device_id": name, "cluster": cluster, "node": node, "model": model, "pool": pool, "units": units}
        rows.append({**about, "ts": at(FIRST.get(name, "2026-09-28 22:10")), "state": "available"})
        if name in ("h3", "m1", "l2"):
            rows.append({**about, "ts": at("2026-10-06 09:20"), "state": "unavailable"})
            rows.append({**about, "ts": at("2026-10-06 15:45:30"), "state": "available"})
        if name == "t0":
            rows.append({**about, "ts": at("2026-10-20 11:11"), "pool": "web", "state": "available"})
        end = "2026-10-21 08:30" if name in ("x0", "l1") else "2026-11-01 06:00"
        rows.append({**about, "ts": at(end), "state": "removed"})
    put(store, "devices", rows)


def _put_jobs(store: Store, dice: random.Random) -> list[dict[str, Any]]:
    """One after the other on each device or part of one, with pauses; returns events that come late.

    Some are suspended, resized, preempted, never end, or claim what is held; a sample every forty minutes, with gaps.
    """
    events: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    drawn: list[dict[str, Any]] = []
    slots = [(name, part) for name, (*_, units) in DEVICES.items() for part in range({1: 1, 7: 3, 100: 2}[units])]
    for number, (device, part) in enumerate(slots):
        cluster, node, _, _, units = DEVICES[device]
        now = at(FIRST.get(device, "2026-09-29 05:00")) + timedelta(minutes=dice.randrange(1200))
        while now < at("2026-10-31 20:00"):
            name = f"{device}-{part}-{len(events)}"
            tenant, project, queue = dice.choice(PAYERS)
            hours = dice.choice((0.01, 0.7, 3, 9, 17.5, 40))
            end = now + timedelta(seconds=int(hours * dice.uniform(2000, 3600)))
            about: dict[str, Any] = {
                "allocation_id": name,
                "workload_id": f"w{number}-{dice.randrange(3)}",
                "cluster": cluster,
                "node": node,
                "tenant": tenant,
                "project": project,
                "queue": queue,
                "preemptible": dice.random() < 0.3,
                "priority": dice.choice((None, -5, 0, 50, 100)),
            }
            held: dict[str, Any] = {"device_id": device, "units": 1}
            if units == 7:
                held = {
                    "device_id": device,
                    "units": (1, 2, 4)[part],
                    "partition_id": f"{device}-p{part}",
                    "partition_profile": ("1g.5gb", "2g.10gb", "4g.20gb")[part],
                }
            elif units == 100:
                held["units"] = dice.choice((20, 25, 50))
            one = [{**about, "ts": now - timedelta(minutes=dice.randrange(90)), "event": "submitted", "gpus": 1.0}]
            one.append({**about, **held, "ts": now, "event": "started"})
            if hours > 5 and dice.random() < 0.3:
                one.append({**about, "ts": now + (end - now) / 4, "event": "suspended"})
                one.append({**about, **held, "ts": now + (end - now) / 3, "event": "resumed"})
            if units == 100 and hours > 5 and dice.random() < 0.4:
                one.append({**about, **held, "units": 10, "ts": now + (end - now) / 2, "event": "resized"})
            one.append({**about, "ts": end, "event": dice.choice(("finished", "finished", "preempted", "failed"))})
            (late if end < SEPTEMBER.end - timedelta(hours=9) and dice.random() < 0.2 else events).extend(one)
            drawn += _samples(dice, held, about, now, end)
            now = end + timedelta(minutes=dice.choice((0, 3, 200, 900, 2500)))
    start = at("2026-10-30 07:00")
    common = {
        "cluster": "",
        "node": "n0",
        "tenant": "chem",
        "project": "b",
        "queue": "day",
        "device_id": "h0",
        "units": 1,
    }
    events.append({**common, "allocation_id": "taken", "workload_id": "taken", "ts": start, "event": "started"})
    events.append(
        {**common, "allocation_id": "open", "workload_id": "open", "ts": at("2026-10-31 21:00"), "event": "started"}
    )
    put(store, "events", events)
    for half in (drawn[::2], drawn[1::2]):  # so that an hour of a stream comes in two batches
        put(store, "samples", half)
    return late


# workload: (what it holds, from, part of it used, GB of memory)
SPACIOUS = {
    "both": (("s0", "s1"), "2026-10-30 00:00", 0.3, 20),
    "serve-0": (("s3",), "2026-10-30 08:00", 0.25, 12),
    "serve-1": (("s4",), "2026-10-30 08:30", 0.25, 12),
    "alpha": (("s5",), "2026-10-30 07:00", 0.35, 30),
    "beta": (("s6",), "2026-10-30 09:00", 0.35, 35),
    "small": (("s7",), "2026-10-30 12:00", 0.1, 4),
    "sliced": (("s2",), "2026-10-30 10:00", 0.1, 6),
    "gift": (("f0",), "2026-10-22 10:00", 0.0, 6),
    "still": (("s9",), "2026-10-30 01:00", 0.01, 5),
    "a day": (("s10",), "2026-10-30 23:00", 0.1, 5),
    "moving": (("s8",), "2026-10-30 13:00", 0.1, 5),
    "bare-0": (("y0",), "2026-10-30 11:00", 0.2, 6),
    "bare-1": (("y1",), "2026-10-30 11:00", 0.2, 6),
}
ENDED = {
    "serve-2": (("s11",), "2026-10-30 08:00", 0.2, 12),
    "gone-0": (("s12",), "2026-10-30 06:00", 0.1, 12),
    "gone-1": (("s13",), "2026-10-30 06:00", 0.1, 12),
}
"""The same, until the morning of the month's last day: what is advised comes too late."""


def put_spacious(store: Store) -> None:
    """Jobs that would do with less: fewer devices or replicas, a smaller instance, a shared device.

    Two have no price, and one costs nothing any more.
    """
    last = at("2026-11-01 05:00")
    devices, events, samples = [], [], []
    for workload, (held, since, use, memory) in {**SPACIOUS, **ENDED}.items():
        end = at("2026-10-31 08:00") if workload in ENDED else last
        about = {"allocation_id": workload, "workload_id": workload, "tenant": "ml", "project": "p", "queue": "day"}
        for name in held:
            kind = {"model": {"s": "A100", "f": "T4", "y": "TPU"}[name[0]], "pool": "mig"}
            device = {**kind, "node": "n3", "units": 7 if name == "s2" else 1, "memory_bytes": 80 * 10**9}
            devices.append({**device, "device_id": name, "ts": at(since), "state": "available"})
            devices.append({**device, "device_id": name, "ts": end, "state": "removed"})
            instance = {"partition_id": "s2-p0", "partition_profile": "3g.40gb"} if name == "s2" else {}
            part = {**instance, "node": "n3", "device_id": name}
            units = 3 if instance else 1
            events.append({**about, **part, "ts": at(since), "event": "started", "units": units})
            reported = {
                "interval_seconds": 3600.0,
                "state": "ok",
                "utilization": use,
                "memory_used_bytes": memory * 10**9,
            }
            now = at(since)
            while (now := now + timedelta(hours=1)) <= end:
                unnamed = workload == "small" and now <= at("2026-10-30 14:00")
                more = {"utilization": 0.6} if unnamed else {"workload_id": workload}
                samples.append({**reported, **part, "ts": now, **more})
        events.append({**about, "ts": end, "event": "finished"})
    # In the month's last hour one of them comes to be about something else, on a device that is another.
    moved = {"project": "q", "queue": "batch", "workload_id": "moved", "allocation_id": "moving", "node": "n3"}
    events.append({**moved, "ts": at("2026-10-31 22:40"), "event": "resized", "device_id": "s8", "units": 1})
    other = {"device_id": "s8", "ts": at("2026-10-31 22:20"), "node": "n4", "units": 1, "state": "available"}
    devices.append({**other, "model": "L40S", "pool": "web", "memory_bytes": 48 * 10**9})
    put(store, "devices", devices)
    put(store, "events", events)
    put(store, "samples", samples)


def put_contradictions(store: Store) -> None:
    """Three days of a node whose claims cannot all be true: of a node alone, of more than is there, of one partition
    twice, of what nobody knows, without an end, ended before they start, suspended for ever, told twice at one instant.
    """
    dice = random.Random("contradictions")
    first = at("2026-10-27 06:00")
    devices: list[dict[str, Any]] = []
    for name, units in (("d0", 1), ("d1", 4), ("d2", 4), ("d3", 7)):
        about = {"device_id": name, "node": "n5", "model": "A100", "pool": "mig"}
        reported = [(0, units, "available"), (20, units, "available"), (61, max(1, units - 2), "available")]
        reported += [
            (64, units, "available"),
            (66, units, "unavailable"),
            (66, units, "available"),
            (96, units, "removed"),
        ]
        devices += [{**about, "ts": first + timedelta(hours=h), "units": n, "state": state} for h, n, state in reported]
    events: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    for number in range(70):
        tenant, project, queue = dice.choice(PAYERS)
        start = first + timedelta(minutes=dice.randrange(-60, 72 * 60))
        end = start + timedelta(minutes=dice.choice((20, 90, 400)), milliseconds=dice.choice((0, 0, 1)))
        about = {"allocation_id": f"c{number % 60}", "workload_id": f"c{number % 60}", "node": "n5"}
        about |= {"tenant": tenant, "project": project, "queue": queue, "gpus": dice.choice((0.3, 1, 1, 2, 5))}
        device = dice.choice(("", "", "d0", "d1", "d2", "d3", "d9"))
        held = {"device_id": device, "units": dice.choice((None, 0, 1, 2, 5)) if device else None}
        if device == "d3":
            held |= {"partition_id": f"d3-{dice.randrange(2)}", "partition_profile": "1g.5gb", "units": 1}
        elif device and dice.random() < 0.1:
            held["device_id"], about["node"] = "", "n6"
        events.append({**about, **held, "ts": start, "event": "started"})
        more = dice.choice(("", "", "suspended", "both", "resized", "again", "before", "at once"))
        middle = start + (end - start) / 2
        if more in ("suspended", "both"):
            events.append({**about, "ts": start + (end - start) / 3, "event": "suspended"})
        if more == "both":
            events.append({**about, "ts": middle, "event": "resumed"})
        if more in ("resized", "again"):
            events.append({**about, **held, "ts": middle, "event": "resized" if more == "resized" else "started"})
        ends = {"before": start - timedelta(minutes=5), "at once": start}.get(more, end)
        if dice.random() < 0.8:
            events.append({**about, "ts": ends, "event": dice.choice(("finished", "failed", "cancelled"))})
        if dice.random() < 0.6:
            seen = {"state": "ok", "utilization": 0.5, "interval_seconds": 1200.0, "workload_id": about["workload_id"]}
            seen |= {"device_id": device or dice.choice(("d1", "d2")), "partition_id": held.get("partition_id", "")}
            span = range(dice.choice((1, 3, 12)))
            measured += [{**seen, "node": "n5", "ts": start + timedelta(minutes=20 * (n + 1))} for n in span]
    # What is told of a device before it is there, at the instant at which it becomes more, and of all of it.
    about = {"device_id": "d4", "node": "n7", "model": "A100", "pool": "mig", "state": "available"}
    devices += [{**about, "ts": first + timedelta(hours=h), "units": n} for h, n in ((0, 2), (30, 4), (50, 3))]
    devices += [{**about, "ts": first + timedelta(hours=96), "units": 3, "state": "removed"}]
    for number, (begin, units) in enumerate(((-2, None), (30, None), (50, None), (50, 1), (61, 5))):
        one = {"allocation_id": f"e{number}", "node": "n7" if begin != 61 else "n5", "tenant": "chem", "project": "b"}
        device = {"device_id": "d4" if begin != 61 else "d3", "units": units}
        events.append({**one, **device, "ts": first + timedelta(hours=begin), "event": "started"})
        events.append({**one, "ts": first + timedelta(hours=begin + 5), "event": "finished"})
    # Two sessions that lack as much to the minimum in one hour, on devices of other units.
    for name, units in (("d5", 1), ("d6", 7)):
        kind = {"device_id": name, "node": "n7", "units": units}
        for h, state in ((0, "available"), (96, "removed")):
            devices.append({**about, **kind, "ts": first + timedelta(hours=h), "state": state})
        one = {"allocation_id": f"short-{name}", "tenant": "bio", "project": "p", "node": "n7"}
        began = first + timedelta(hours=70)
        events.append({**one, **kind, "ts": began, "event": "started"})
        events.append({**one, "ts": began + timedelta(seconds=30), "event": "finished"})
    # A node of which nobody says which device is held, and one that says more than it has.
    for name in ("b0", "b1", "b2"):
        for h, state in ((0, "available"), (96, "removed")):
            devices.append(
                {**about, "device_id": name, "node": "n8", "units": 4, "ts": first + timedelta(hours=h), "state": state}
            )
    for number, gpus in enumerate((1.0, 0.3, 2.0, 0.5)):
        one = {"allocation_id": f"any{number}", "node": "n8", "tenant": "phys", "project": "a", "gpus": gpus}
        begin = first + timedelta(hours=4, minutes=20 * number)
        events.append({**one, "ts": begin, "event": "started"})
        events.append({**one, "ts": begin + timedelta(hours=9), "event": "finished"})
    # Stamps of whole seconds: one's end, and the next one's start or a millisecond later; and what is no longer.
    for number, (begin, end) in enumerate(((0, 9), (8, 20), (19.001, 30), (30, 31), (30, 40), (39.5, 50))):
        one = {"allocation_id": f"stamp{number}", "tenant": "phys", "project": "a", "node": "n7", "device_id": "d5"}
        began = first + timedelta(hours=80)
        events.append({**one, "ts": began + timedelta(seconds=begin), "event": "started"})
        events.append({**one, "ts": began + timedelta(seconds=end), "event": "finished"})
    # One that began in the month that is issued, and never ends.
    kind = {"device_id": "d7", "node": "n7", "units": 1}
    devices.append({**about, **kind, "ts": at("2026-09-30 03:00")})
    devices.append({**about, **kind, "ts": first + timedelta(hours=96), "state": "removed"})
    one = {"allocation_id": "endless", "tenant": "hpc", "project": "acc-17", "queue": "day"}
    events.append({**one, **kind, "ts": at("2026-09-30 04:00"), "event": "started"})
    put(store, "devices", devices)
    put(store, "events", events)
    put(store, "samples", measured)


def _samples(
    dice: random.Random, held: dict[str, Any], about: dict[str, Any], start: datetime, end: datetime
) -> list[dict[str, Any]]:
    """Of one job: it works, idles, or is not measured at all; what a device draws is told with the whole of it.

    Now and then it tells 100 kW or 2 TiB, which nothing draws or has.
    """
    kind = dice.choice(("works", "works", "idles", "untold", "gaps"))
    rows: list[dict[str, Any]] = []
    step = timedelta(minutes=40)
    now = start + step
    while now <= end + step and kind != "untold":
        state = dice.choice(("ok", "ok", "ok", "idle", "unsupported", "blank")) if kind == "gaps" else "ok"
        use = 0.0 if kind == "idles" else round(dice.uniform(0.1, 1), 2)
        row = {
            "ts": now,
            "interval_seconds": 2400.0,
            "cluster": about["cluster"],
            "node": about["node"],
            "state": state,
            "device_id": held["device_id"],
            "partition_id": held.get("partition_id", ""),
            "workload_id": about["workload_id"],
            "utilization": use if state in ("ok", "idle") else None,
            "memory_used_bytes": 2**41 if len(rows) % 11 == 6 else dice.randrange(1, 40) * 2**30,
            "power_watts": 100_000.0 if len(rows) % 7 == 3 else 50 + 300 * use,
            "energy_joules": None,
        }
        rows.append(row)
        if held.get("partition_id"):
            rows.append(
                {
                    **row,
                    "partition_id": "",
                    "workload_id": "",
                    "utilization": None,
                    "state": "unsupported",
                    "energy_joules": 2400 * (40 + 200 * use),
                }
            )
        now += step * (3 if kind == "gaps" and dice.random() < 0.2 else 1)
    return rows
