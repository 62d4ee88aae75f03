"""What the shipped rules should say of a simulated fleet: worked out from the simulator's own knowledge, without SQL.

    world = World(plan)
    EXPECTED["idle-holder"](world, rule, at_ms) -> {identity: True | False | None | UNDECIDED}

True: the condition holds. False, or no entry: it does not. None: unknown, so that the state stays as it is.
UNDECIDED: what was done while an exporter was down would change the answer; nobody could know, and nobody is judged.

What the sources tell is taken as told: an allocation whose end event is lost is held on, and so is an impossible claim.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alerts.rule import Rule
from alerts.xid_advice import ACTIONS, codes
from collectors.simulated.activity import fraction, noise, utilization
from collectors.simulated.fleet import DAY, HOUR, MINUTE, FleetPlan, Slot, build, slots
from collectors.simulated.jobs import jobs
from collectors.simulated.placement import Allocation, place
from collectors.simulated.streams import ACTIVITIES, Scope, blind_spots, streams
from collectors.simulated.troubles import NORMAL, REPORTED_EVERY, reported_devices, troubles

UNDECIDED = "undecided"
Identity = tuple[str, ...]
Verdict = bool | str | None
Verdicts = dict[Identity, Verdict]
TERMINAL = ("suspended", "preempted", "finished", "failed", "cancelled", "rejected")


@dataclass(frozen=True)
class Held:
    """Slots that an allocation holds during [from_ms, until_ms), as reported; start_ms: since when without a break."""

    allocation: Allocation
    slots: tuple[Slot, ...]
    start_ms: int
    from_ms: int
    until_ms: int


class Readings:
    """What was measured of one holder on one device, in order of time. told: a sample arrived; seen: with a value."""

    def __init__(self, ts: np.ndarray, busy: np.ndarray, seen: np.ndarray, reported: np.ndarray) -> None:
        order = np.argsort(ts, kind="stable")
        ts, busy, seen, reported = ts[order], busy[order], seen[order], reported[order]
        self.reported_ts: list[int] = ts[reported].tolist()
        self.seen_ts: list[int] = ts[seen].tolist()
        self.used = np.concatenate([[0.0], np.cumsum(busy[seen])])
        self.active_ts: list[int] = ts[busy > 0.01].tolist()
        self.active_seen_ts: list[int] = ts[seen & (busy > 0.01)].tolist()

    def seen(self, after: int, until: int) -> int:
        return bisect_right(self.seen_ts, until) - bisect_right(self.seen_ts, after)

    def used_between(self, after: int, until: int) -> float:
        first, last = bisect_right(self.seen_ts, after), bisect_right(self.seen_ts, until)
        return float(self.used[last] - self.used[first])


NOTHING = Readings(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool), np.zeros(0, bool))


def last_before(times: list[int], at: int, least: int) -> int:
    """The last of the times that is in (least, at]; least if there is none."""
    place = bisect_right(times, at)
    return max(times[place - 1], least) if place else least


class World:
    def __init__(self, plan: FleetPlan) -> None:
        self.plan, self.fleet = plan, build(plan)
        wanted = jobs(plan, Counter(slot.kind for slot in slots(plan, self.fleet)))
        placed = place(plan, self.fleet, wanted)
        self.events = sorted(placed.events, key=lambda event: event.ts_ms)
        self.streams = streams(plan, self.fleet, placed.holdings)
        self.blind = blind_spots(plan, self.fleet)
        self.troubles = troubles(plan, self.fleet)
        self.reported_devices = set(reported_devices(self.fleet))
        names = sorted({device.node for device in self.fleet.devices})
        self.offset = {name: n * 7919 % (plan.interval_seconds * 1000) for n, name in enumerate(names)}
        self.by_node: dict[str, list[int]] = defaultdict(list)
        for number, device in enumerate(self.fleet.devices):
            self.by_node[device.node].append(number)
        self.by_device: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        for number, stream in enumerate(self.streams):
            self.by_device[stream.device, stream.partition_id, stream.workload_id].append(number)
        self._readings: dict[tuple[int, str, str], Readings] = {}
        self._holders: tuple[int, list[Held]] = (-1, [])

    @cached_property
    def held(self) -> list[Held]:
        found, now = [], {}
        for event in self.events:
            name = event.allocation.allocation_id
            before = now.pop(name, None)
            if event.event in ("started", "resumed", "resized"):
                start = before[0] if before and event.event == "resized" else event.ts_ms
                now[name] = (start, event.ts_ms, event)
            elif event.event not in TERMINAL and before is not None:
                now[name] = before
                continue
            if before is not None:
                found.append(Held(before[2].allocation, before[2].slots, before[0], before[1], event.ts_ms))
        found += [Held(e.allocation, e.slots, start, since, 1 << 62) for start, since, e in now.values()]
        return sorted(found, key=lambda held: held.from_ms)

    @cached_property
    def histories(self) -> dict[str, list[tuple[int, str]]]:
        """By allocation: (ts, event), in order."""
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for event in self.events:
            found[event.allocation.allocation_id].append((event.ts_ms, event.event))
        return found

    @cached_property
    def allocations(self) -> dict[str, Allocation]:
        return {event.allocation.allocation_id: event.allocation for event in self.events}

    def holders(self, at: int) -> list[Held]:
        if self._holders[0] != at:
            self._holders = (at, [held for held in self.held if held.from_ms <= at < held.until_ms])
        return self._holders[1]

    def waiters(self, at: int) -> list[tuple[Allocation, int]]:
        """Who waits, and since when."""
        found = []
        for name, history in self.histories.items():
            if history[0][0] <= at and history[0][1] == "submitted" and (len(history) == 1 or history[1][0] > at):
                found.append((self.allocations[name], history[0][0]))
        return found

    def asked(self, allocation: Allocation) -> float | None:
        """GPUs that somebody who waits asks for, as the source tells; a share that was never given is unknown."""
        kind = allocation.job.kind.slot
        if allocation.slots:
            slot = allocation.slots[0]
            return allocation.job.size * slot.units / self.fleet.devices[slot.device].group.units
        return float(allocation.job.size) if "/" not in kind and kind != "l4" else None

    def state(self, number: int, at: int) -> tuple[str, int]:
        """A device's state, and since when; empty: it is not there."""
        device = self.fleet.devices[number]
        if at < device.since_ms or (device.until_ms < self.plan.end_ms and at >= device.until_ms):
            return "", 0
        state, since = "available", device.since_ms
        for down, up in device.down:
            if down <= at:
                state, since = ("unavailable", down) if at < up else ("available", up)
        return state, since

    def dark(self, node: str, ts: np.ndarray) -> np.ndarray:
        found = np.zeros(len(ts), bool)
        for spot in self.blind:
            if spot.node == node and not spot.state:
                found |= (ts > spot.start_ms) & (ts <= spot.end_ms)
        return found

    def refused(self, node: str, ts: np.ndarray) -> np.ndarray:
        found = np.zeros(len(ts), bool)
        for spot in self.blind:
            if spot.node == node and spot.state:
                found |= (ts > spot.start_ms) & (ts <= spot.end_ms)
        return found

    def readings(self, held: Held, slot: Slot, at: int, window: int) -> Readings:
        """What speaks of a holder on a slot at an instant: its own stream; where that was silent for the window, or
        the exporter knows no names, everybody's on the device, if nobody else holds a part of it."""
        device = self.fleet.devices[slot.device]
        if device.group.instances:
            return self._of(slot.device, slot.partition_id, held.allocation.workload_id)
        own = self._of(slot.device, "", held.allocation.workload_id)
        if last_before(own.reported_ts, at, at - window) > at - window:
            return own
        claims = {
            other.allocation.allocation_id
            for other in self.holders(at)
            for one in other.slots
            if one.device == slot.device
        }
        return self._of(slot.device, "", "") if len(claims) == 1 else NOTHING

    def _of(self, *key: *tuple[int, str, str]) -> Readings:
        if key not in self._readings:
            self._readings[key] = self._read(key)
        return self._readings[key]

    def _read(self, key: tuple[int, str, str]) -> Readings:
        parts = [self._stream(number) for number in self.by_device.get(key, [])]
        if not parts:
            return NOTHING
        return Readings(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _stream(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        stream, plan = self.streams[number], self.plan
        device = self.fleet.devices[stream.device]
        ts, busy = self._activity(number)
        if stream.scope is Scope.together:  # what everybody there did
            for other, part in enumerate(self.streams):
                if part.device == stream.device and part.scope is Scope.part:
                    when, more = self._activity(other)
                    place = np.searchsorted(ts, when)
                    here = (place < len(ts)) & (ts[np.minimum(place, len(ts) - 1)] == when)
                    np.add.at(busy, place[here], more[here])
        whole = np.full(len(ts), number)
        luck = fraction(noise(plan.seed, whole + 1_000_003, ts // 1000), 1)
        reported = ~self.dark(device.node, ts)
        return ts, busy, reported & ~self.refused(device.node, ts) & (luck >= 0.0025), reported

    def _activity(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Times of a stream's readings, and its true activity then; of the device, or of the instance."""
        stream, plan = self.streams[number], self.plan
        step, offset = plan.interval_seconds * 1000, self.offset[self.fleet.devices[stream.device].node]
        first = (stream.start_ms - offset) // step + 1
        ts = np.arange(first, (stream.end_ms - offset) // step + 1) * step + offset
        kind = np.full(len(ts), ACTIVITIES.index(stream.activity))
        began = np.full(len(ts), stream.began_ms)
        busy = utilization(plan.seed, kind, np.full(len(ts), number), ts, began)
        return ts, np.round(busy * stream.share, 4) if stream.scope is Scope.part else busy

    def reported(self, number: int, ts: int) -> bool:
        """Whether metrics of a device were reported at an instant of their grid."""
        device = self.fleet.devices[number]
        here = number in self.reported_devices and device.since_ms < ts <= device.until_ms
        up = all(ts <= down or ts > back for down, back in device.down)
        return here and up and not self.dark(device.node, np.array([ts]))[0]

    def gpu(self, number: int) -> Identity:
        device = self.fleet.devices[number]
        return self.plan.cluster, device.node, device.device_id


def seconds(since: int, at: int) -> int:
    """As the engine counts: borders of seconds."""
    return at // 1000 - since // 1000


# Holders


def idle(world: World, rule: Rule, at: int) -> Verdicts:
    bound = rule.threshold({})
    found: Verdicts = {}
    by_allocation: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
    for held in world.holders(at):
        for slot in held.slots:
            reported = world.readings(held, slot, at, 3 * HOUR)
            least = max(min(at, held.start_ms + 10 * MINUTE), at - 3 * HOUR)
            seen_since = last_before(reported.active_seen_ts, at, least)
            true_since = last_before(reported.active_ts, at, least)
            quiet = at - seen_since
            known = quiet < MINUTE or reported.seen(seen_since, at) * MINUTE >= 0.9 * quiet
            by_allocation[held.allocation.allocation_id].append((quiet / 1000, (at - true_since) / 1000, known))
    for name, parts in by_allocation.items():
        known_quiet = [quiet for quiet, _, known in parts if known]
        identity = (world.plan.cluster, name)
        if len(known_quiet) < len(parts) and not (known_quiet and min(known_quiet) < 60):
            found[identity] = None
        else:
            seen = min(known_quiet) >= bound
            true = min(really for _, really, _ in parts) >= bound
            found[identity] = seen if seen == true else UNDECIDED
    return found


def low_utilization(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    window = 6 * HOUR
    for held in world.holders(at):
        if held.start_ms > at - window - 10 * MINUTE:
            continue
        share: dict[int, float] = defaultdict(float)
        reported: dict[tuple[int, str], Readings] = {}
        for slot in held.slots:
            group = world.fleet.devices[slot.device].group
            partition = slot.partition_id if group.instances else ""
            share[slot.device] += slot.units / group.units
            reported[slot.device, partition] = world.readings(held, slot, at, window)
        covered = {key: one.seen(at - window, at) for key, one in reported.items()}
        identity = (world.plan.cluster, held.allocation.allocation_id)
        enough = min(covered.values()) * MINUTE / window
        if abs(enough - 0.9) < 0.01:
            found[identity] = UNDECIDED
        elif enough < 0.9:
            found[identity] = None
        else:
            # Of an instance the utilization is its own; of a part it is the device's, so the share held is the whole.
            used = sum(one.used_between(at - window, at) for one in reported.values())
            held_minutes = sum(n if p else n * share[d] for (d, p), n in covered.items())
            mean = used / held_minutes
            found[identity] = UNDECIDED if abs(mean - 0.5) < 0.003 else mean < 0.5
    return found


def unmetered(world: World, rule: Rule, at: int) -> Verdicts:
    held_seconds: dict[str, float] = defaultdict(float)
    covered: dict[str, float] = defaultdict(float)
    for held in world.holders(at):
        for slot in held.slots:
            state, since = world.state(slot.device, at)
            if state != "available":
                continue
            first = max(held.start_ms, since)
            whole = min(HOUR, at - first) / 1000
            seen = world.readings(held, slot, at, HOUR).seen(max(first, at - HOUR), at)
            held_seconds[slot.node] += whole
            covered[slot.node] += min(whole, seen * 60)
    found: Verdicts = {}
    for node, whole in held_seconds.items():
        if whole >= 1800:
            part = 1 - covered[node] / whole
            found[world.plan.cluster, node] = UNDECIDED if abs(part - 0.2) < 0.003 else part > 0.2
    return found


# Queues


def long_queue(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    for allocation, since in world.waiters(at):
        queue = (world.plan.cluster, allocation.job.kind.queue)
        found[queue] = bool(found.get(queue)) or seconds(since, at) >= 3600
    return found


def starvation(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    for waiter, since in world.waiters(at):
        if since <= at - 2 * HOUR:
            passed = 0
            for name, history in world.histories.items():
                other = world.allocations[name].job.kind
                started = any(event == "started" and ts <= at for ts, event in history)
                mine = other.queue == waiter.job.kind.queue and other.priority <= waiter.job.kind.priority
                passed += mine and started and history[0][1] == "submitted" and history[0][0] > since
            found[world.plan.cluster, waiter.allocation_id] = passed >= 5
    return found


def queue_wait_burn(world: World, rule: Rule, at: int) -> Verdicts:
    waits: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for name, history in world.histories.items():
        submitted, kind = history[0]
        if kind != "submitted" or not at - 25 * HOUR < submitted <= at:
            continue
        bound = submitted + HOUR
        past = [(ts, event) for ts, event in history if ts <= at]
        started = next((ts for ts, event in past if event == "started"), None)
        over = next((ts for ts, event in past if event in ("rejected", "cancelled", "failed")), None)
        counts = min(started, bound) if started is not None else bound
        late = started is None or started > bound
        if at - DAY < counts <= at and (over is None or over > counts or started is not None):
            waits[world.allocations[name].job.kind.queue].append((counts, late))
    found: Verdicts = {}
    for queue, reported in waits.items():
        if len(reported) >= 10:
            lately = [late for ts, late in reported if ts > at - 2 * HOUR]
            long_rate = sum(late for _, late in reported) / len(reported) / 0.05
            short_rate = sum(lately) / len(lately) / 0.05 if lately else 0.0
            burn = min(long_rate, short_rate)
            found[world.plan.cluster, queue] = UNDECIDED if abs(burn - 2) < 1e-6 else burn >= 2
        else:
            found[world.plan.cluster, queue] = None
    return found


def preemption_storm(world: World, rule: Rule, at: int) -> Verdicts:
    victims: dict[str, set[str]] = defaultdict(set)
    for name, history in world.histories.items():
        if any(event == "preempted" and at - HOUR < ts <= at for ts, event in history):
            victims[world.allocations[name].job.kind.queue].add(name)
    return {(world.plan.cluster, queue): len(names) >= 5 for queue, names in victims.items()}


def fragmentation(world: World, rule: Rule, at: int) -> Verdicts:
    taken = {slot.device for held in world.holders(at) for slot in held.slots}
    free: dict[tuple[str, str], int] = defaultdict(int)
    there: dict[tuple[str, str], int] = defaultdict(int)
    for number, device in enumerate(world.fleet.devices):
        if world.state(number, at)[0] == "available":
            there[device.group.pool, device.node] += 1
            free[device.group.pool, device.node] += number not in taken
    pools: dict[str, set[str]] = defaultdict(set)
    for event in world.events:
        if event.event in ("started", "resized") and event.ts_ms <= at:
            for slot in event.slots:
                if world.state(slot.device, at)[0] == "available":
                    pools[event.allocation.job.kind.queue].add(world.fleet.devices[slot.device].group.pool)
    found: Verdicts = {}
    for waiter, since in world.waiters(at):
        gpus, mine = world.asked(waiter), pools[waiter.job.kind.queue]
        nodes = [place for place in there if place[0] in mine]
        if gpus is None or gpus < 2 or not nodes:
            continue
        most = max(free[place] for place in nodes)
        if gpus <= max(there[place] for place in nodes) and sum(free[place] for place in nodes) >= gpus > most:
            found[world.plan.cluster, waiter.allocation_id] = seconds(since, at) >= 900
    return found


def quota(world: World, rule: Rule, at: int) -> Verdicts:
    held: dict[str, float] = defaultdict(float)
    for one in world.holders(at):
        for slot in one.slots:
            held[one.allocation.job.tenant] += slot.units / world.fleet.devices[slot.device].group.units
    asked: dict[str, float] = defaultdict(float)
    for waiter, since in world.waiters(at):
        if since <= at - 10 * MINUTE:
            asked[waiter.job.tenant] += world.asked(waiter) or 0
    found: Verdicts = {}
    quotas = rule.parameters["quotas"]
    assert isinstance(quotas, dict)
    for name, gpus in quotas.items():
        over = held[name] - gpus
        missing = min(gpus, held[name] + asked[name]) - held[name]
        value = missing if rule.parameters["judge"] == "missing" else over
        found["", str(rule.parameters["by"]), name] = value > 1e-6
    return found


# Devices


def device_unavailable(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    for number in range(len(world.fleet.devices)):
        state, since = world.state(number, at)
        if state == "unavailable":
            found[world.gpu(number)] = seconds(since, at) >= 900
    return found


def node_unavailable(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    for node, numbers in world.by_node.items():
        states = [state for state in (world.state(number, at) for number in numbers) if state[0]]
        if len(states) >= 2 and all(state == "unavailable" for state, _ in states):
            found[world.plan.cluster, node] = seconds(max(since for _, since in states), at) >= 300
    return found


def exporter_gap(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    step = world.plan.interval_seconds * 1000
    for node, numbers in world.by_node.items():
        states = [world.state(number, at) for number in numbers]
        since = [since for state, since in states if state == "available"]
        if since:
            newest = (at - world.offset[node]) // step * step + world.offset[node]
            ts = np.arange(newest, max(newest - 6 * HOUR, world.plan.start_ms), -step)
            seen = ts[~world.dark(node, ts)]
            last = max([*since, *([int(seen[0])] if len(seen) else [])])
            found[world.plan.cluster, node] = seconds(max(last, at - 6 * HOUR), at) >= 600
    return found


def overheating(world: World, rule: Rule, at: int) -> Verdicts:
    found: Verdicts = {}
    for trouble in world.troubles:
        if trouble.hot and at - 6 * MINUTE <= trouble.end_ms and at > trouble.start_ms:
            node = world.fleet.devices[trouble.device].node
            step, offset = world.plan.interval_seconds * 1000, world.offset[node]
            ts = np.arange((at - offset) // step, (at - 5 * MINUTE - offset) // step, -1) * step + offset
            ts = ts[~(world.dark(node, ts) | world.refused(node, ts))]
            hot = (ts > trouble.start_ms) & (ts <= trouble.end_ms)
            if len(ts) >= 2:
                found[world.gpu(trouble.device)] = bool(hot.all()) if hot.all() or not hot.any() else UNDECIDED
            elif len(ts):
                found[world.gpu(trouble.device)] = None
    return found


def xid(world: World, rule: Rule, at: int) -> Verdicts:
    meant = {
        "xid-hardware": set(ACTIONS) - set(codes("RESTART_APP", "IGNORE")),
        "xid-application": set(codes("RESTART_APP")),
    }
    found: Verdicts = {}
    for trouble in world.troubles:
        mine = trouble.xid not in ACTIONS if rule.name == "xid-unknown" else trouble.xid in meant[rule.name]
        if trouble.xid and mine and at - 6 * HOUR < trouble.start_ms <= at:
            found[*world.gpu(trouble.device), str(trouble.xid)] = True
    return found


def gpu_lost(world: World, rule: Rule, at: int) -> Verdicts:
    return {
        world.gpu(trouble.device): True
        for trouble in world.troubles
        if trouble.lost and at - 6 * HOUR < trouble.start_ms <= at
    }


def collector_finding(world: World, rule: Rule, at: int) -> Verdicts:
    return {
        (world.plan.cluster, spot.node, spot.state): True
        for spot in world.blind
        if spot.state == "no_permission" and spot.node in world.by_node and at - HOUR < spot.start_ms <= at
    }


def _of_metric(rule: Rule, world: World) -> Iterator[tuple[int, int, int, float]]:
    """(device, start, end, value) of troubles with the rule's metric."""
    for trouble in world.troubles:
        for name, value in trouble.metrics:
            if name == rule.parameters["metric"]:
                yield trouble.device, trouble.start_ms, trouble.end_ms, value


def _window(rule: Rule, at: int, world: World, device: int) -> list[int]:
    """Instants at which metrics of a device were reported in the rule's window."""
    first = at - int(rule.bound()["window_seconds"]) * 1000
    grid = range(first // REPORTED_EVERY * REPORTED_EVERY + REPORTED_EVERY, at + 1, REPORTED_EVERY)
    return [ts for ts in grid if world.reported(device, ts)]


def gauge(world: World, rule: Rule, at: int) -> Verdicts:
    """Throttled shares, means and newest values, of the readings in the window."""
    found: Verdicts = {}
    name = str(rule.parameters["metric"])
    for device, start, end, value in _of_metric(rule, world):
        window = _window(rule, at, world, device)
        shown = [value if start < ts <= end else NORMAL[name] for ts in window]
        if shown:
            reported = shown[-1] if rule.query == "metric_latest.sql" else sum(shown) / len(shown)
            found[world.gpu(device)] = bool(rule.holds(reported / 300 if name.endswith("_seconds") else reported, {}))
    return found


def counter(world: World, rule: Rule, at: int) -> Verdicts:
    """What rose between the first and the last reading in the window."""
    found: Verdicts = {}
    for device, start, _, value in _of_metric(rule, world):
        if at - 25 * HOUR < start <= at:
            window = _window(rule, at, world, device)
            rose = bool(window) and window[0] <= start < window[-1]
            found[world.gpu(device)] = rose and bool(rule.holds(value, {}))
    return found


def never(world: World, rule: Rule, at: int) -> Verdicts:
    """The simulator makes no such situation."""
    return {}


EXPECTED: Mapping[str, Callable[[World, Rule, int], Verdicts]] = {
    "collector-finding": collector_finding,
    "device-unavailable": device_unavailable,
    "ecc-corrected": counter,
    "ecc-uncorrected": counter,
    "exporter-gap": exporter_gap,
    "fragmentation": fragmentation,
    "gpu-lost": gpu_lost,
    "gpu-silent": never,
    "hardware-throttling": gauge,
    "idle-holder": idle,
    "idle-holder-notice": idle,
    "idle-holder-reclaim": idle,
    "long-queue": long_queue,
    "low-utilization": low_utilization,
    "memory-overheating": gauge,
    "node-unavailable": node_unavailable,
    "overheating": overheating,
    "power-throttling": gauge,
    "preemption-storm": preemption_storm,
    "queue-wait-burn": queue_wait_burn,
    "quota-breached": quota,
    "quota-guarantee-missed": quota,
    "row-remap-failure": gauge,
    "row-remap-pending": gauge,
    "rows-remapped": counter,
    "starvation": starvation,
    "thermal-throttling": gauge,
    "unmetered-share": unmetered,
    "usage-without-allocation": never,
    "xid-application": xid,
    "xid-hardware": xid,
    "xid-unknown": xid,
}
"""By rule; the others need books, budgets, services or deliveries, which the simulator has none of."""
QUOTAS = {"physics": 14.0, "vision": 16.0, "nlp": 24.0, "platform": 3.0}
"""GPUs by tenant, for the rules of quotas: limits and guarantees that are sometimes passed and sometimes missed."""
