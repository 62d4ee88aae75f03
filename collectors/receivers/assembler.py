"""Makes rows from pushed points, periodically: `run` is one pass.

An instant of a target is assembled when nothing of it has come for `settle_seconds`. Its rows are stored with the
current permissions of its sender, and then it is marked; if killed in between, it is assembled again, into the same
rows. Points that come later still (from a shard of Prometheus that had to wait) are assembled again together with their
neighbours: such rows are stored beside the earlier ones, like anything that is reported differently.

The state of units and devices is written after the instants are marked, so it is never ahead of them; what was not
written is learned again from the log.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.profile import FILES, Profile
from collectors.exporters.units import SourceUnits
from collectors.readings import Row
from collectors.receivers.assemble import (
    LOOKBACK_SECONDS,
    TOGETHER_SECONDS,
    Instant,
    Memory,
    TellDevices,
    assemble,
    instants,
    silent,
)
from collectors.receivers.log import Kind, Pending, PointLog, Reading
from collectors.receivers.points import Target
from ingest.receive import Receiver
from ingest.senders import Sender
from warehouse.errors import LedgerError
from warehouse.store import Store
from warehouse.turns import Held

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
ASSEMBLING = "assembling"
"""At what those take turns who make records of points."""
SETTLE_SECONDS = 10.0
"""Prometheus sends what it scraped within five seconds (`batch_send_deadline`)."""
SECOND_SECONDS = 120.0
"""How long a target's first instant waits for its second, which tells how often it is asked."""
HELD_UP_SECONDS = 900.0
"""Nothing more is taken in when the oldest instant has waited so long: something keeps them from being assembled."""
ROWS_AT_ONCE = 50_000
LEASE_SECONDS = 60.0
"""Of several servers over one store one assembles; another goes on when it has not for so long."""
LOG_SECONDS = 60.0
FORGET_SECONDS = 3600.0
"""A target of which nothing came for so long is forgotten, but for its units."""
SILENT_SECONDS, SILENT_PERIODS = 300.0, 5
"""A target is silent when nothing of it came for so long, and so many times as long as between two instants."""
SAVED_SECONDS = 86_400.0
"""What is remembered is written again after so long, or it would be thrown away as old."""
AGENT_GONE = timedelta(hours=1)
"""An agent that has measured nothing of a device for this long no longer counts as its source."""
OTHERS_SECONDS = 600.0
"""How often to check whether other sources still report the devices that are left to them."""
LOOKBACK, AROUND = timedelta(seconds=LOOKBACK_SECONDS), timedelta(seconds=LOOKBACK_SECONDS)

Key = tuple[str, str]
"""Sender and target."""


@dataclass
class _Heard:
    """When a target was last heard. at: of its last point; monotonic seconds, as saved_at.   silent: its silence was
    reported."""

    memory: Memory
    at: float
    saved_at: float
    silent: bool = False

    @property
    def silent_seconds(self) -> float:
        """After which nothing of it is too long."""
        return max(SILENT_SECONDS, SILENT_PERIODS * self.memory.period_seconds)


@dataclass
class _Devices:
    """The devices reported by a sender's exporters of one cluster. seen_at: their last instant in this pass."""

    inventory: ExporterInventory
    saved_at: float
    seen_at: float | None = None


class Assembler:
    """receiver: where rows go.   pushed: the log that is filled meanwhile, or None where nobody fills one here.
    profiles: by which series are read."""

    def __init__(
        self,
        receiver: Receiver,
        pushed: PointLog | None = None,
        settle_seconds: float = SETTLE_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        profiles: Sequence[Profile] = FILES.built_in,
    ) -> None:
        self._receiver, self._pushed, self._settle, self._lease = receiver, pushed, settle_seconds, lease_seconds
        self._profiles = profiles
        self._mine = uuid.uuid4()
        self._begun = False
        self._heard: dict[Key, _Heard] = {}
        self._devices: dict[Key, _Devices] = {}  # by sender and cluster
        self._left_out: dict[tuple[str, str, str], Row] = {}  # by sender, cluster and device
        self._left_out_at = time.monotonic()
        self._looked_at = 0.0
        self._troubled_at = -LOG_SECONDS
        self._troubled: set[Key] = set()
        self.dropped: Counter[str] = Counter()
        """Series that were read and not used, by reason, since the server began."""

    def run(self, store: Store, stop: threading.Event) -> None:
        """One pass. What goes wrong is logged, and tried again with the next."""
        try:
            with store.turn(ASSEMBLING) as held:
                self._pass(Reading(store, self._mine), held, stop)
        except LedgerError as error:
            self.forget()  # it is ahead of what is stored
            if self._to_be_logged():
                log.error("receive: pushed points are waiting to be assembled: %s", error)
        except Exception:  # the next pass goes on where this one stopped
            self.forget()
            log.exception("receive: pushed points are waiting to be assembled")

    def forget(self) -> None:
        """It is read from the store again."""
        self._begun = False
        self._heard.clear()
        self._devices.clear()

    def _pass(self, reading: Reading, held: Held, stop: threading.Event) -> None:
        now = time.monotonic()
        others = reading.seconds_since_others()
        if others < now - self._looked_at + EVERY_SECONDS:
            self.forget()  # they know what happened meanwhile; the log tells it
        self._looked_at = now
        if others < self._lease:
            return
        if not self._begun:
            self._begin(reading, now, stop)
        pending = reading.pending()
        if self._pushed is not None:
            waits = (one.waits_seconds for one in pending if (one.sender, one.target) not in self._troubled)
            self._pushed.held_up = max(waits, default=0.0) > HELD_UP_SECONDS
        self._troubled.clear()
        batch = _Batch(self._receiver, reading, held, self._left_out)
        for one in pending:
            heard = self._heard.get((one.sender, one.target))
            if heard is not None:
                heard.at, heard.silent = max(heard.at, now - one.age_seconds), False
        for key, some in groupby(pending, lambda one: (one.sender, one.target)):
            if stop.is_set():
                break
            try:
                self._target(key, list(some), reading, batch)
            except LedgerError:
                raise
            except Exception:  # of this target alone: it must not keep the others from being assembled
                log.exception("receive: what %s pushed of %s waits to be assembled", *key)
                self._troubled.add(key)
                self._heard.pop(key, None)
            if batch.rows >= ROWS_AT_ONCE:
                self._store(batch, reading)
        self._tell_gone(batch)
        self._tell_left_out(batch, now)
        self._tell_silent(reading, batch)
        self._store(batch, reading)
        self._heard = {
            key: heard
            for key, heard in self._heard.items()
            if heard.at > now - max(FORGET_SECONDS, 2 * heard.silent_seconds)
        }

    def _begin(self, reading: Reading, now: float, stop: threading.Event) -> None:
        """Learns from the log what was known of the targets that are pushed. How long they are silent is counted from
        now on: while no server was there nobody could push."""
        for sender, target, last in reading.heard():
            if stop.is_set():
                return
            memory = self._memory((sender, target), reading)
            parsed = Target.of(target)
            points = reading.points(sender, target, last - LOOKBACK, last)
            assemble(parsed, memory, instants(points, TOGETHER_SECONDS[parsed.way]), lambda _: False)
            self._heard[sender, target] = _Heard(memory, now, now)
        self._begun = True

    def _memory(self, key: Key, reading: Reading) -> Memory:
        """A new one, that knows the units that the target had."""
        return Memory(self._profiles, _units(reading.remembered(key[0], "units", key[1])))

    def _inventory(
        self, sender: Sender | None, target: Target, at: float, reading: Reading
    ) -> ExporterInventory | None:
        """Where its devices are reported; None where the sender may not."""
        if sender is None or not sender.permissions.may_send("devices"):
            return None
        key = sender.name, target.cluster
        if key not in self._devices:
            inventory = ExporterInventory(target.cluster)
            try:
                inventory.restore(reading.remembered(sender.name, "devices", target.cluster))
            except (TypeError, KeyError, ValueError, AttributeError) as mistake:
                log.warning("receive: the devices of %s must be learned again: %s", sender.name, mistake)
            self._devices[key] = _Devices(inventory, time.monotonic())
        devices = self._devices[key]
        devices.seen_at = max(at, devices.seen_at or at)
        return devices.inventory

    def _tell_gone(self, batch: _Batch) -> None:
        for (sender, _), devices in self._devices.items():
            if devices.seen_at is not None:
                batch.add(sender, {"devices": devices.inventory.missing(devices.seen_at)})
                devices.seen_at = None

    def _tell_left_out(self, batch: _Batch, now: float) -> None:
        """Devices that were left to others, in case these are gone: then they are as they were reported last."""
        if now - self._left_out_at < OTHERS_SECONDS:
            return
        self._left_out_at = now
        since = datetime.now(UTC) - AGENT_GONE
        for (sender, _, _), row in self._left_out.items():
            batch.add(sender, {"devices": [row | {"ts": max(row["ts"], since)}]})

    def _tell_silent(self, reading: Reading, batch: _Batch) -> None:
        """Once for each silence, by the server's clock: who pushed may have died, and then says nothing of it."""
        now = time.monotonic()
        for (sender, target), heard in self._heard.items():
            if self._pushed is not None and self._pushed.held_up:
                heard.at = now  # nobody could push
            if heard.silent or not heard.memory.node or now - heard.at <= heard.silent_seconds:
                continue
            heard.silent = True
            came = reading.heard_at(sender, target)
            if came is not None and not heard.memory.stopped:  # whose series have ended, that was reported
                # Said again after a restart it is the same row.
                seconds = heard.silent_seconds
                row = silent(Target.of(target), heard.memory, came.timestamp() + seconds, seconds)
                batch.add(sender, {"findings": [row]})

    def _to_be_logged(self) -> bool:
        """Once a while: a store that is away is away with every pass."""
        due = time.monotonic() >= self._troubled_at + LOG_SECONDS
        self._troubled_at = time.monotonic() if due else self._troubled_at
        return due

    def _store(self, batch: _Batch, reading: Reading) -> None:
        """Errors: LedgerError of a sender whose rows the store did not take; the others' are there."""
        for trouble in batch.store():
            raise trouble
        now = time.monotonic()
        some: list[tuple[str, Kind, str, Mapping[str, Any]]] = []
        for (sender, target), heard in self._heard.items():
            units = heard.memory.units
            if units.targets and (units.changed or now - heard.saved_at > SAVED_SECONDS):
                some.append((sender, "units", target, units.plain()))
                heard.saved_at, units.changed = now, False
        for (sender, cluster), devices in self._devices.items():
            if devices.inventory.changed or now - devices.saved_at > SAVED_SECONDS:
                some.append((sender, "devices", cluster, devices.inventory.plain()))
                devices.saved_at, devices.inventory.changed = now, False
        if some:
            batch.held.check()
            reading.remember(some)

    def _target(self, key: Key, pending: Sequence[Pending], reading: Reading, batch: _Batch) -> None:
        target = Target.of(key[1])
        ready = [one for one in pending if one.age_seconds >= self._settle]
        heard = self._heard.get(key)
        memory = heard.memory if heard is not None else None
        at = memory.at if memory is not None else None
        late = [one for one in ready if at is not None and one.ts.timestamp() <= at]
        unready = [one.ts for one in pending if one.age_seconds < self._settle]
        first_unready = min((ts for ts in unready if at is None or ts.timestamp() > at), default=None)
        next_ones = [
            one
            for one in ready
            if (at is None or one.ts.timestamp() > at) and (first_unready is None or one.ts < first_unready)
        ]
        together = TOGETHER_SECONDS[target.way]
        if memory is not None and late:
            self._late(key, memory, late, together, reading, batch)
        if not next_ones:
            return
        first = next_ones[0].ts - (LOOKBACK if memory is None else timedelta())
        some = instants(reading.points(*key, first, next_ones[-1].ts), together)
        if at is None and len(some) == 1 and next_ones[0].waits_seconds < SECOND_SECONDS:
            return
        wanted = {one.ts for one in next_ones}
        if memory is None:
            memory = self._memory(key, reading)
            if not wanted.isdisjoint(some[0].members):
                memory.units.doubt()  # nothing is known of the time before
        sender = batch.sender(key[0])
        inventory = self._inventory(sender, target, next_ones[-1].ts.timestamp(), reading)
        self._reported(key, target, memory, some, wanted, batch, inventory.take if inventory is not None else None)
        batch.done[key[0]] += next_ones
        came = time.monotonic() - min(one.age_seconds for one in next_ones)
        if heard is None:
            self._heard[key] = _Heard(memory, came, time.monotonic())

    def _late(
        self,
        key: Key,
        memory: Memory,
        late: Sequence[Pending],
        together: float,
        reading: Reading,
        batch: _Batch,
    ) -> None:
        """What came after its instant was assembled: this instant again and those after it, which it may change, as far
        as they were assembled. Of units they know what is known now, unless they are from before."""
        target = Target.of(key[1])
        new = sorted(reading.new(late))
        for first, last in _spans(new):
            some = instants(reading.points(*key, first - LOOKBACK, last + AROUND), together)
            wanted = {ts for one in some for ts in one.members if first <= ts and ts.timestamp() <= memory.at}
            again = Memory(self._profiles, SourceUnits.of(memory.units.plain()))
            if first.timestamp() <= memory.changed_at:
                again.units.doubt()
            inventory = self._inventory(batch.sender(key[0]), target, last.timestamp(), reading)
            self._reported(
                key, target, again, some, wanted, batch, inventory.take_late if inventory is not None else None
            )
            memory.take_late(again)
        batch.done[key[0]] += late

    def _reported(
        self,
        key: Key,
        target: Target,
        memory: Memory,
        some: Sequence[Instant],
        wanted: set[datetime],
        batch: _Batch,
        devices: TellDevices | None = None,
    ) -> None:
        collected = assemble(target, memory, some, lambda instant: not wanted.isdisjoint(instant.members), devices)
        self.dropped += collected.dropped
        batch.add(key[0], collected.rows)


class _Batch:
    """Rows of several targets that are stored together, and the instants they were made of, by sender.

    held: the turn in which that is done; once it is lost others have assembled the same, and more."""

    def __init__(
        self, receiver: Receiver, reading: Reading, held: Held, left_out: dict[tuple[str, str, str], Row]
    ) -> None:
        self._receiver, self._reading, self.held, self._left_out = receiver, reading, held, left_out
        self.done: dict[str, list[Pending]] = defaultdict(list)
        self.rows = 0
        self._rows: dict[str, dict[str, list[Row]]] = {}

    def sender(self, name: str) -> Sender | None:
        """None: it may send no more."""
        return self._receiver.senders.named(name)

    def add(self, sender: str, rows: dict[str, list[Row]]) -> None:
        own = self._rows.setdefault(sender, {})
        for record, some in rows.items():
            own.setdefault(record, []).extend(some)
            self.rows += len(some)

    def store(self) -> list[LedgerError]:
        """Answers why the store did not take the rows of some senders: theirs are not marked, and come again."""
        troubles = []
        for name in self.done.keys() | self._rows.keys():
            sender = self.sender(name)
            try:
                self.held.check()
                if sender is not None:
                    rows = self._may(sender, self._rows.get(name, {}))
                    self._receiver.take(sender, f"push:{name} metrics", rows)
                else:
                    log.warning("receive: %s may send no more: its last pushes are dropped", name)
                self._reading.assembled(self.done.get(name, []))
            except LedgerError as trouble:
                troubles.append(trouble)
        self.done, self.rows, self._rows = defaultdict(list), 0, {}
        return troubles

    def _may(self, sender: Sender, rows: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
        """What it asked for by pushing metrics: of the records made of them those that it may send, without the devices
        that another source tells of. Samples are not left out here: whoever may push no more is counted so."""
        found = {
            record: some for record, some in rows.items() if record == "samples" or sender.permissions.may_send(record)
        }
        if found.get("devices"):
            since = datetime.now(UTC) - AGENT_GONE
            others = self._reading.reported_by_others((row["device_id"] for row in found["devices"]), since)
            own = []
            for row in found["devices"]:
                device = row.get("cluster", ""), row["device_id"]
                if device in others:
                    self._left_out[sender.name, *device] = row
                else:
                    self._left_out.pop((sender.name, *device), None)
                    own.append(row)
            found["devices"] = own
        return found


def _units(plain: Mapping[str, Any]) -> SourceUnits:
    try:
        return SourceUnits.of(plain)
    except (KeyError, TypeError, ValueError, AttributeError) as mistake:
        log.warning("receive: the units of a target must be learned again: %s", mistake)
        return SourceUnits()


def _spans(times: Iterable[datetime]) -> list[list[datetime]]:
    """Groups instants that are close to each other; each group as its first and last."""
    spans: list[list[datetime]] = []
    for ts in times:
        if spans and ts - spans[-1][1] <= AROUND:
            spans[-1][1] = ts
        else:
            spans.append([ts, ts])
    return spans
