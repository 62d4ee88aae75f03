"""A fleet with a month that is issued, and rows about it that somebody could forge.

October is issued; it is the 20th of November. What goes on, what lost its end, what is silent and what was only told by
its node are there, because the books estimate those, and a row of today could move them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from billing.close import close
from billing.invoicing.invoices import issue_all
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.facts import devices, put
from tests.billing.hand_ledger import at
from warehouse.store import Store

NOW = at("2026-11-20 12:00")
OCTOBER = parse_period("2026-10", "UTC")
NOVEMBER, ISSUED_AT = at("2026-11-01 00:00"), at("2026-11-10 00:00")
Row = dict[str, Any]

AGENT, OTHER_AGENT, WATCH, ANYBODY, REFUSED, NODE_WATCH = (
    f"the token of {who}" for who in ("agent n1", "agent n4", "the watch", "anybody", "who may not", "what is on n1")
)
SENDERS = f"""
senders:
  - {{name: n1, token: {AGENT}, records: [samples, metrics, findings, devices], clusters: [c1], nodes: [n1]}}
  - {{name: n4, token: {OTHER_AGENT}, records: [samples, devices, service_levels], clusters: [c1], nodes: [n4],
     services: [chat], back: all}}
  - {{name: watch, token: {WATCH}, records: [events, devices, findings], clusters: [c1], nodes: all, back: all,
     inventory: true}}
  - {{name: anybody, token: {ANYBODY}, records: all, clusters: all, nodes: all, back: all, inventory: true}}
  - {{name: n1-events, token: {NODE_WATCH}, records: [events], clusters: [c1], nodes: [n1]}}
  - {{name: refused, token: {REFUSED}, records: all, clusters: all, nodes: all, back: all, past: refused}}
"""
CARD = {
    "currency": "EUR",
    "minimum_seconds": 0,
    "rates": [
        {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"},
        {"sku": "scrap", "match": {"model": "H100", "pool": "scrap"}, "price_per_gpu_hour": "0.05"},
        {"sku": "spot", "match": {"model": "H100", "preemptible": True}, "price_per_gpu_hour": "0.50"},
        {"sku": "cheap", "match": {"model": "CHEAP"}, "price_per_gpu_hour": "0.005"},
    ],
}


def issued_fleet(store: Store) -> None:
    """Puts the fleet into a store, closes it and issues October."""
    closed_fleet(store)
    issue_october(store)


def issue_october(store: Store) -> None:
    issue_all(store, OCTOBER, ISSUED_AT)


def closed_fleet(store: Store) -> None:
    """The same, and October is not issued yet."""
    apply_rate_card(store, parse_rate_card(CARD), "me", "", at("2026-10-01 00:00"))
    since, place = "2026-10-01 00:00", {"cluster": "c1", "pool": "train"}
    nodes = {
        "n1": ("g1", "g1b"), "n2": ("g2",), "n3": ("g3",), "n4": ("g4", "g5"), "n5": ("g6",), "n6": ("g7", "g8"),
        "n7": ("g9",), "n8": ("g10", "g11"),
    }  # fmt: skip
    reported = [row for node, names in nodes.items() for row in devices(since, *names, node=node, **place)]
    reported += devices(since, "m1", node="n9", **place, units=7)
    put(store, "devices", [*reported, *devices(since, "x1", node="k1", **{**place, "cluster": "c2"})])
    put(store, "events", list(events()))
    put(store, "samples", list(samples()))
    closed(store)


def closed(store: Store) -> int:
    """How many rows the close took back."""
    return close(store, NOW - timedelta(hours=2), NOW).held


def events() -> Iterator[Row]:
    yield from started("whole", "chem", "g1", "n1", "2026-10-05 00:00", "2026-10-09 00:00")
    yield from started("other", "phys", "g2", "n2", "2026-10-05 10:00", "2026-10-07 10:00")
    yield from started("x", "bio", "x1", "k1", "2026-10-06 00:00", "2026-10-08 00:00", cluster="c2")
    # It goes on; its own samples do, too.
    yield from started("lively", "bio", "g3", "n3", "2026-10-20 00:00")
    # It goes on, and was never sampled.
    yield from started("unseen", "chem", "g6", "n5", "2026-10-21 00:00")
    # Of this one the device was told and no node.
    yield from started("by-device", "bio", "g8", "", "2026-10-22 00:00")
    # Its samples stopped in October, while the device's went on: its end counts as lost.
    yield from started("lost", "chem", "g5", "n4", "2026-10-10 00:00")
    # Its samples stopped in October, and its device's, too: nobody can tell.
    yield from started("silent", "phys", "g4", "n4", "2026-10-12 00:00")
    # Of these only the node was told: an ended one, and one that goes on.
    yield from started("noded", "chem", "", "n6", "2026-10-10 00:00", "2026-10-12 00:00", gpus=1.0)
    yield from started("noded-on", "bio", "", "n8", "2026-10-15 00:00", gpus=1.0)
    # One that names no tenant, no gpus and no priority goes on.
    yield from started("blank", "", "g9", "n7", "2026-10-15 00:00")
    # Ends before it starts, and is refused for that.
    yield from started("backwards", "phys", "g1b", "n1", "2026-10-15 00:00")
    yield event("backwards", "finished", at("2026-10-14 00:00"))
    # Parts of a device: one goes on.
    yield from started("part", "chem", "m1", "n9", "2026-10-03 00:00", partition_id="p1", units=3)


def samples() -> Iterator[Row]:
    for hour in range(24):
        yield sample("g1", "n1", at("2026-10-05 01:00") + timedelta(hours=hour), "whole", 0.5)
    for day in range(30):
        yield sample("g3", "n3", at("2026-10-20 01:00") + timedelta(days=day), "lively", 0.5)
    # It covers the end of October as well.
    yield sample("g3", "n3", at("2026-11-01 00:30"), "lively", 0.5)
    yield sample("g5", "n4", at("2026-10-11 00:00"), "lost", 0.5)
    for day in range(12, 20):
        yield sample("g5", "n4", at(f"2026-10-{day} 00:00"), "", 0.0, state="idle")
    yield sample("g4", "n4", at("2026-10-13 00:00"), "silent", 0.5)


def event(allocation: str, what: str, ts: datetime, cluster: str = "c1", **more: Any) -> Row:
    return {"ts": ts, "cluster": cluster, "allocation_id": allocation, "workload_id": allocation, "event": what, **more}


def started(
    name: str, tenant: str, device: str, node: str, start: str, end: str = "", cluster: str = "c1", **more: Any
) -> Iterator[Row]:
    about = {"tenant": tenant, "node": node, "device_id": device, **more}
    yield event(name, "started", at(start), cluster, **about)
    if end:
        yield event(name, "finished", at(end), cluster)


def sample(device: str, node: str, ts: datetime, workload: str = "", use: float = 1.0, **more: Any) -> Row:
    return {
        "ts": ts, "interval_seconds": 3600.0, "cluster": "c1", "node": node, "device_id": device,
        "workload_id": workload, "state": "ok", "utilization": use, **more,
    }  # fmt: skip


def device(name: str, node: str, ts: datetime, **more: Any) -> Row:
    about = {"cluster": "c1", "model": "H100", "pool": "train", "state": "available", **more}
    return {"ts": ts, "node": node, "device_id": name, **about}


@dataclass(frozen=True)
class Forged:
    """Rows that somebody pushes."""

    what: str
    token: str
    record: str
    rows: list[Row]


LONG_AGO, MID_OCTOBER, LIVE = at("2001-01-01 00:00"), at("2026-10-05 12:00"), NOW - timedelta(hours=3)


def forged() -> Iterator[Forged]:
    yield from _devices()
    yield from _events()
    yield from _samples()
    yield from _others()


def _devices() -> Iterator[Forged]:
    cheap = {"model": "CHEAP"}
    for who, token in (("an agent", AGENT), ("the watch", WATCH), ("anybody", ANYBODY)):
        for ts in (LONG_AGO, at("2026-09-20 00:00"), MID_OCTOBER):
            yield Forged(f"{who} makes a foreign device cheap", token, "devices", [device("g2", "n2", ts, **cheap)])
            yield Forged(f"{who} moves a foreign device to n1", token, "devices", [device("g2", "n1", ts, **cheap)])
        yield Forged(f"{who} has its own device away", token, "devices",
                     [device("g1", "n1", MID_OCTOBER, state="unavailable")])  # fmt: skip
        yield Forged(f"{who} moves its own device to another pool", token, "devices",
                     [device("g1", "n1", MID_OCTOBER, pool="scrap")])  # fmt: skip
        yield Forged(f"{who} says its own device is two", token, "devices", [device("g1", "n1", MID_OCTOBER, units=2)])
        yield Forged(f"{who} says its device again, otherwise", token, "devices",
                     [device("g1", "n1", at("2026-10-01 00:00"), state="removed")])  # fmt: skip
    yield Forged("a device of today comes where one was assumed", WATCH, "devices", [device("a0", "n8", LIVE)])
    yield Forged("a device of today goes where one was assumed", ANYBODY, "devices", [device("a1", "n8", LIVE)])
    yield Forged("of another cluster", ANYBODY, "devices", [device("x1", "k1", MID_OCTOBER, cluster="c2", **cheap)])


def _events() -> Iterator[Forged]:
    back = at("2026-10-06 00:00")
    yield Forged("a job ends early", WATCH, "events", [event("whole", "finished", back)])
    for what in ("preempted", "failed", "cancelled", "rejected", "suspended"):
        yield Forged(f"another job is {what} early", WATCH, "events", [event("other", what, back)])
    yield Forged("a job goes over to another tenant", WATCH, "events",
                 [event("whole", "resized", back, tenant="phys", node="n1", device_id="g1")])  # fmt: skip
    yield Forged(
        "a job starts again under another tenant",
        WATCH,
        "events",
        [event("whole", "started", MID_OCTOBER, tenant="aaa", node="n1", device_id="g1")],
    )
    yield Forged("another tenant is charged", WATCH, "events",
                 [event("made-up", "started", at("2026-10-15 00:00"), tenant="phys", node="n1", device_id="g1"),
                  event("made-up", "finished", at("2026-10-16 00:00"))])  # fmt: skip
    yield Forged("a job is taken down in September already", WATCH, "events",
                 [event("older", "started", at("2026-09-15 00:00"), tenant="phys", node="n2", device_id="g2"),
                  event("older", "finished", at("2026-10-06 00:00"))])  # fmt: skip
    yield Forged("a suspended job is resumed", ANYBODY, "events",
                 [event("whole", "resumed", at("2026-10-12 00:00"), node="n1", device_id="g1")])  # fmt: skip
    yield Forged("a job of another cluster ends", ANYBODY, "events", [event("x", "finished", back, cluster="c2")])
    yield Forged("a job is submitted again", WATCH, "events",
                 [event("blank", "submitted", at("2026-10-14 00:00"), tenant="aaa")])  # fmt: skip
    # Of today, and they reach back all the same.
    for what, more in {
        "a tenant": {"tenant": "aaa"}, "a project": {"project": "p"}, "a queue": {"queue": "q"},
        "preemptible": {"preemptible": True},
    }.items():  # fmt: skip
        yield Forged(f"{what} is filled in", WATCH, "events", [event("blank", "submitted", LIVE, **more)])
    yield Forged(
        "a job that ended before it started ends again", WATCH, "events", [event("backwards", "finished", LIVE)]
    )
    yield Forged("a node ends another node's job", NODE_WATCH, "events", [event("lively", "finished", LIVE, node="n1")])
    yield Forged("a node ends a job of which its device is known", NODE_WATCH, "events",
                 [event("by-device", "finished", LIVE, node="n1")])  # fmt: skip
    yield Forged("a lost end is told", WATCH, "events", [event("lost", "finished", LIVE)])
    yield Forged("somebody comes to a device whose holder was never seen", WATCH, "events",
                 [event("new", "started", LIVE, tenant="aaa", node="n5", device_id="g6")])  # fmt: skip
    yield Forged("somebody comes to a device that was assumed", WATCH, "events",
                 [event("newer", "started", LIVE, tenant="aaa", node="n8", device_id="g10")])  # fmt: skip
    greedy = {"tenant": "aaa", "node": "n9", "device_id": "m1", "partition_id": "p2", "units": 5}
    yield Forged(
        "a part says that it is more than is left", WATCH, "events", [event("greedy", "started", LIVE, **greedy)]
    )


def _samples() -> Iterator[Forged]:
    a_minute = {"interval_seconds": 60.0}
    for token, who in ((AGENT, "an agent"), (ANYBODY, "anybody")):
        yield Forged(f"{who} was busier", token, "samples", [sample("g1", "n1", at("2026-10-05 03:00"), "whole", 1.0)])
        yield Forged(f"{who} was busy later", token, "samples", [sample("g1", "n1", at("2026-10-07 03:00"), "whole")])
        yield Forged(f"{who} tells of a foreign device", token, "samples",
                     [sample("g2", "n2", at("2026-10-06 03:00"), "other")])  # fmt: skip
        yield Forged(f"{who} tells of a foreign device as its own", token, "samples",
                     [sample("g2", "n1", at("2026-10-06 04:00"), "other")])  # fmt: skip
        yield Forged(f"{who} reaches over the month's end", token, "samples",
                     [sample("g3", "n3", NOVEMBER + timedelta(minutes=30), "lively")])  # fmt: skip
        yield Forged(f"{who} cuts what a sample covers of the month's end", token, "samples",
                     [sample("g3", "n3", NOVEMBER + timedelta(minutes=10), "lively", **a_minute)])  # fmt: skip
        yield Forged(f"{who} takes the place of a sample that covers the month's end", token, "samples",
                     [sample("g3", "n3", NOVEMBER + timedelta(minutes=30), "lively", **a_minute)])  # fmt: skip
    yield Forged("power is told later", ANYBODY, "samples",
                 [sample("g1", "n1", at("2026-10-05 02:00"), "whole", 0.5, power_watts=500.0)])  # fmt: skip
    yield Forged("a lost one shows a sign of life", OTHER_AGENT, "samples", [sample("g5", "n4", LIVE, "lost")])
    yield Forged("a silent one's device is sampled", OTHER_AGENT, "samples", [sample("g4", "n4", LIVE)])
    yield Forged("a device is named for what ran on another", ANYBODY, "samples", [sample("g8", "n6", LIVE, "noded")])
    yield Forged("a device is named for what goes on", ANYBODY, "samples", [sample("g11", "n8", LIVE, "noded-on")])


def _others() -> Iterator[Forged]:
    level = {"ts": MID_OCTOBER, "interval_seconds": 60.0, "cluster": "c1", "service": "chat", "metric": "errors_total",
             "value": 9.0, "tenant": "chem"}  # fmt: skip
    yield Forged("a service was worse", OTHER_AGENT, "service_levels", [level])
    metric = {"ts": MID_OCTOBER, "interval_seconds": 60.0, "cluster": "c1", "node": "n2", "device_id": "g2",
              "metric": "sm_clock_hertz", "state": "ok", "value": 1.0}  # fmt: skip
    yield Forged("a foreign device was slower", AGENT, "metrics", [metric])
    finding = {"ts": MID_OCTOBER, "cluster": "c1", "node": "n2", "finding": "xid", "severity": "critical"}
    yield Forged("a foreign node was broken", AGENT, "findings", [finding])


def honest() -> Iterable[Forged]:
    """What agents and the watch say every day, and must be stored as it comes."""
    yield Forged("", AGENT, "samples", [sample("g1", "n1", LIVE + timedelta(minutes=n), interval_seconds=60.0)
                                       for n in range(30)])  # fmt: skip
    yield Forged("", AGENT, "devices", [device("g1", "n1", LIVE)])
    yield Forged("", AGENT, "devices", [device("g1c", "n1", LIVE)])
    yield Forged("", ANYBODY, "samples", [sample("g3", "n3", LIVE, "lively")])
    level = {"ts": LIVE, "interval_seconds": 60.0, "cluster": "c1", "service": "chat", "metric": "errors_total"}
    yield Forged("", OTHER_AGENT, "service_levels", [{**level, "value": 1.0}])
    run = event("today", "started", LIVE, tenant="chem", node="n2", device_id="g2", gpus=1.0)
    yield Forged("", WATCH, "events", [event("today", "submitted", LIVE - timedelta(minutes=1), tenant="chem"), run])
    yield Forged("", WATCH, "events", [event("today", "finished", LIVE + timedelta(hours=1))])
    yield Forged("", WATCH, "events", [event("lively", "finished", LIVE + timedelta(hours=1))])
    yield Forged("", WATCH, "events", [event("pod", "started", LIVE, tenant="chem", node="n6", gpus=1.0)])
    yield Forged("", ANYBODY, "samples", [sample("g7", "n6", LIVE + timedelta(hours=1), "pod")])
    part = event("beside", "started", LIVE, tenant="bio", node="n9", device_id="m1", partition_id="p2", units=4)
    yield Forged("", WATCH, "events", [part])
    yield Forged("", WATCH, "devices", [device("g2", "n2", LIVE, state="unavailable")])


def late_rows(number: int) -> list[Forged]:
    """Each moves October if it gets in: the first use of an hour, and ever earlier ends of what goes on."""
    used = sample("g1", "n1", at("2026-10-06 02:00") + timedelta(minutes=number), "whole", 1.0, interval_seconds=60.0)
    ended = event("unseen", "finished", at("2026-10-31 00:00") - timedelta(minutes=number))
    return [Forged("", ANYBODY, "samples", [used]), Forged("", ANYBODY, "events", [ended])]
