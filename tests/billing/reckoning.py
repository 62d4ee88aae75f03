"""What tenants owe for a month, by hand: small, slow, and written from docs/billing.md and docs/ledger.md alone, with
docs/energy.md for energy, docs/tenants.md for mappings, docs/accounts.md for grants and budgets.

No line of `billing` and no engine: facts as people would write them down, fractions, and a loop over every stretch of
time in which nothing changes. It knows devices of several clusters and pools, of one or more shares, that come, break
and go; jobs on one or more of them, with or without a partition, that are resized, suspended and go on, with an end or
none; samples; mappings; prices by all that a match and a window take but priorities; and every policy of money.

    reckoning = Reckoning(books)
    owed = reckoning.owed("2026-03")["chem"]        # Owed(net=..., tax=...)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

HOUR = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NANOJOULES_PER_KWH = 3_600_000 * 10**9
BYTE_MS_PER_GIB_HOUR = 2**30 * HOUR
DAY = 24 * HOUR
WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
OPEN = 1 << 62
"""The end of what has none."""
Span = tuple[int, int]
"""[start, end) in ms since the epoch."""
Name = tuple[str, str]
"""Cluster, and name within it: of a device or a job."""


@dataclass
class Device:
    """Split in `shares` equal parts. rows: its state and its pool from an instant (ms) until the next one."""

    cluster: str
    name: str
    model: str
    shares: int
    rows: dict[int, tuple[str, str]]

    @property
    def key(self) -> Name:
        return self.cluster, self.name

    def at(self, instant: int) -> tuple[str, str]:
        said = ((since, row) for since, row in self.rows.items() if since <= instant)
        return max(said, default=(0, ("removed", "")))[1]


@dataclass(frozen=True)
class Place:
    """What a job holds of a device: shares, or a partition of so many."""

    device: str
    shares: int
    partition: str = ""
    profile: str = ""


@dataclass(frozen=True)
class Stretch:
    """A job holds its places during [start, end). begun, ended: by which events; ended '': by what begins the next."""

    start: int
    end: int
    places: tuple[Place, ...]
    begun: str = "started"
    ended: str = "finished"


@dataclass
class Job:
    """tenant, project: as its source told.   last_told: the last end that was, though an earlier one may hold."""

    cluster: str
    name: str
    tenant: str
    project: str
    stretches: list[Stretch]
    queue: str = ""
    preemptible: bool = False
    last_reported: int = 0

    @property
    def key(self) -> Name:
        return self.cluster, self.name

    @property
    def start(self) -> int:
        return self.stretches[0].start

    @property
    def end(self) -> int:
        return self.stretches[-1].end

    def on(self, device: Name, span: Span) -> list[Place]:
        """What it holds there within the span."""
        return [
            place
            for one in self.stretches
            for place in one.places
            if (self.cluster, place.device) == device and one.start < span[1] and span[0] < one.end
        ]


@dataclass(frozen=True)
class Sample:
    """use: millionths.   None: not told.   partition, workload: '' = the whole device, everybody."""

    cluster: str
    device: str
    partition: str
    workload: str
    at: int
    length: int
    state: str
    use: int | None = None
    watts: int | None = None
    bytes: int | None = None


@dataclass
class GivenCredit:
    """In favour of the tenant; a reversal is one of the opposite amount in the same month."""

    tenant: str
    month: str
    amount: Decimal


@dataclass
class GivenGrant:
    """Pays for what accrues during [start, end)."""

    name: str
    tenant: str
    amount: Decimal
    start: int
    end: int


@dataclass
class Books:
    """All that happened, in whatever order it was told. `card`, `mapping` and `idle_power` as people write them.

    until: what is later is not in the ledger yet.
    """

    card: dict[str, Any]
    devices: Mapping[Name, Device]
    until: int
    jobs: dict[Name, Job] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    mapping: dict[str, Any] = field(default_factory=lambda: {"rules": []})
    idle_power: list[dict[str, Any]] = field(default_factory=list)
    credits: list[GivenCredit] = field(default_factory=list)
    grants: dict[str, GivenGrant] = field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.card["timezone"])


@dataclass(frozen=True)
class Owed:
    net: Decimal
    tax: Decimal


@dataclass
class Piece:
    """What a job held of a device within one hour for one tenant at one price.

    held = used + idle + unmetered, in GPU-hours.   left, cost_left: of it and of its cost, what policies leave.
    kwh, gib_hours: drawn and held, as far as measured.
    """

    job: Job
    device: Device
    pool: str
    tenant: str
    project: str
    sku: str
    price: Fraction
    start: int
    held: Fraction = Fraction(0)
    used: Fraction = Fraction(0)
    unmetered: Fraction = Fraction(0)
    kwh: Fraction = Fraction(0)
    gib_hours: Fraction = Fraction(0)
    left: Fraction = Fraction(0)
    cost_left: Fraction = Fraction(0)
    SAID: ClassVar[Sequence[str]] = (
        "start", "pool", "tenant", "project", "sku", "price", "held", "used", "unmetered", "kwh", "gib_hours"
    )  # fmt: skip
    HELD: ClassVar[Sequence[str]] = ("start", "tenant", "project", "sku", "price", "held")

    @property
    def hour(self) -> int:
        return self.start // HOUR

    def fits(self, match: Mapping[str, Any]) -> bool:
        """What a policy is about: globs, and whether it is preemptible."""
        mine = {"tenant": self.tenant, "project": self.project, "sku": self.sku, "queue": self.job.queue}
        globs = {key: glob for key, glob in match.items() if key in mine}
        spot = match.get("preemptible", self.job.preemptible)
        return bool(spot == self.job.preemptible) and all(fnmatchcase(mine[key], glob) for key, glob in globs.items())


@dataclass(frozen=True)
class Free:
    """What nobody held of a device in a stretch; `away`: it was not available."""

    device: Device
    pool: str
    start: int
    hours: Fraction
    cost: Fraction
    away: bool


@dataclass
class Use:
    """How a holder used a stretch. covered: ms; used: shares x ms x millionths; bytes: byte x ms."""

    covered: int = 0
    used: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Cover:
    """What a stream says of [start, end)."""

    start: int
    end: int
    use: int | None
    watts: int | None
    bytes: int | None


Streams = Mapping[tuple[Name, str, str], Sequence[Cover]]
"""By device, partition and workload."""


@dataclass(frozen=True)
class Claim:
    """A job holds a place during [start, end), as the books believe."""

    job: Job
    place: Place
    start: int
    end: int

    @property
    def device(self) -> Name:
        return self.job.cluster, self.place.device

    def within(self, span: Span) -> bool:
        return self.start < span[1] and span[0] < self.end


Spare = Mapping[tuple[str, int], list[tuple[str, Fraction]]]
"""By tenant and hour, what quotas leave unused: (sku, GPU-hours) of each."""


class Reckoning:
    """The books as a whole. pieces: all that was held; free: what nobody held."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.pieces: list[Piece] = []
        self.free: list[Free] = []
        self.claims = _claims(books)
        streams = _streams(books.samples)
        for device in books.devices.values():
            self._live(device, streams)

    def owed(self, month: str) -> dict[str, Owed]:
        """What each tenant that owes something for the month owes."""
        books, span = self.books, month_span(month, self.books.zone)
        pieces = self._pieces_of(span)
        for piece in pieces:
            piece.left, piece.cost_left = piece.held, piece.held * piece.price
        exact: dict[str, Fraction] = defaultdict(Fraction)
        for piece in pieces:
            exact[piece.tenant] += piece.held * piece.price
        _components(books, month, pieces, exact)
        spare = _commitments(books, month, span, pieces, exact)
        self._minimum(month, span, spare, exact)
        self._discounts(month, span, pieces, exact)
        for tenant, amount in self._shared(month, span, pieces):
            exact[tenant] += Fraction(amount)
        for credit in books.credits:
            if credit.month == month:
                exact[credit.tenant] -= Fraction(credit.amount)
        return {tenant: _taxed(books, tenant, month, cents(owed)) for tenant, owed in exact.items()}

    def measures(self, month: str) -> dict[str, list[Fraction]]:
        """By tenant GPU-hours used, idle and unmetered, and what was held at its prices."""
        found: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 4)
        for one in self._pieces_of(month_span(month, self.books.zone)):
            parts = (one.used, one.held - one.used - one.unmetered, one.unmetered, one.held * one.price)
            found[one.tenant] = [before + part for before, part in zip(found[one.tenant], parts, strict=True)]
        return found

    def in_all(self, month: str) -> dict[str | None, list[Fraction]]:
        """By tenant what it owes with taxes, and GPU-hours held and used; None: of what nobody held. On no document is
        what is nobody's: what is held costs there."""
        owed, measures = self.owed(month), self.measures(month)
        found: dict[str | None, list[Fraction]] = {}
        for tenant in owed.keys() | measures.keys():
            used, idle, unmetered, cost = measures.get(tenant, [Fraction(0)] * 4)
            due = owed.get(tenant)
            found[tenant] = [Fraction(due.net + due.tax) if tenant and due else cost, used + idle + unmetered, used]
        start, end = month_span(month, self.books.zone)
        free = [one for one in self.free if start <= one.start < end and not one.away]
        costs, hours = (sum((getattr(one, name) for one in free), Fraction(0)) for name in ("cost", "hours"))
        return {**found, None: [costs, hours, Fraction(0)]}

    def said(self, months: Iterable[str]) -> list[object]:
        """All that the books say of some months: what was held and used, by whom and at what price; what nobody held;
        which short sessions ended; and what sessions that go on into them held before, where prices ask for it."""
        found: list[object] = []
        minimums = self.books.card["minimum_seconds"]
        most = max([minimums] if isinstance(minimums, int) else [one["seconds"] for one in minimums])
        by_session = any(one.get("per") == "session" for one in self.books.card["discounts"])
        reach = OPEN if by_session else -(-most // 3600) * HOUR
        for span in (month_span(month, self.books.zone) for month in months):
            platform: dict[object, Fraction] = defaultdict(Fraction)
            for free in self.free:
                if span[0] <= free.start < span[1]:
                    platform[free.device.key, free.pool, free.start // HOUR, free.away] += free.hours
            pieces = sorted(
                [one.job.key, one.device.key, *(getattr(one, name) for name in Piece.SAID)]
                for one in self._pieces_of(span)
            )
            short = {
                key: (start, end)
                for key, (start, end) in self._sessions.items()
                if span[0] < end <= span[1] and end - start < most * 1000
            }
            going_on = {claim.job.key for claim in self.claims if claim.within(span)}
            before = sorted(
                [one.job.key, one.device.key, *(getattr(one, name) for name in Piece.HELD)]
                for one in self.pieces
                if one.job.key in going_on and span[0] - reach <= one.start < span[0]
            )
            found.append((pieces, {key: hours for key, hours in platform.items() if hours}, short, before))
        return found

    def draws(self, tenant: str, month: str, due: Decimal, taken: Mapping[str, Decimal]) -> dict[str, Decimal]:
        """What the tenant's grants pay of what is due on the month's invoice. taken: what they paid before."""
        start, end = month_span(month, self.books.zone)
        grants = sorted(
            (one for one in self.books.grants.values() if one.tenant == tenant),
            key=lambda one: (one.end, one.start, one.name),
        )
        edges = {start, end, *(at for one in grants for at in (one.start, one.end) if start < at < end)}
        spans = list(pairwise(sorted(edges)))
        costs = [self._cost_within(tenant, span) for span in spans]
        weights = costs if sum(costs) else [Fraction(span[1] - span[0]) for span in spans]
        parts = shared_out(due, weights) if due > 0 else [Decimal(0)] * len(spans)
        left = {one.name: one.amount - taken.get(one.name, Decimal(0)) for one in grants}
        drawn: dict[str, Decimal] = defaultdict(Decimal)
        for (since, _), part in zip(spans, parts, strict=True):
            for one in grants:
                paid = min(part, left[one.name]) if one.start <= since < one.end else Decimal(0)
                left[one.name] -= paid
                part -= paid
                drawn[one.name] += paid
        return {name: paid for name, paid in drawn.items() if paid}

    def _cost_within(self, tenant: str, span: Span) -> Fraction:
        mine = [one for one in self._pieces_of(span) if one.tenant == tenant]
        return sum((one.held * one.price for one in mine), Fraction(0))

    def _pieces_of(self, span: Span) -> list[Piece]:
        return [piece for piece in self.pieces if span[0] <= piece.start < span[1]]

    # --- usage -------------------------------------------------------------------------------------------------------

    def _live(self, device: Device, streams: Streams) -> None:
        """Walks along the device's time from change to change."""
        claims = [claim for claim in self.claims if claim.device == device.key]
        found: dict[tuple[Any, ...], Piece] = {}
        for start, end in pairwise(sorted(self._edges(device, claims))):
            state, pool = device.at(start)
            if state == "available":
                holders = [claim for claim in claims if claim.within((start, end))]
                self._stretch(device, pool, holders, (start, end), streams, found)
            elif state == "unavailable":
                self.free.append(Free(device, pool, start, Fraction(end - start, HOUR), Fraction(0), away=True))
        self.pieces += found.values()

    def _edges(self, device: Device, claims: Sequence[Claim]) -> set[int]:
        """Instants at which something may change; of the hours and midnights those at which it is there."""
        edges = {*device.rows, *(at for claim in claims for at in (claim.start, claim.end))}
        for rule in (*self.books.card["rates"], *self.books.mapping["rules"]):
            zone = self._zone(rule)
            edges |= {self._instant(rule[key], zone) for key in ("effective_from", "effective_to") if key in rule}
        until = self.books.until
        for since, end in pairwise(sorted({*device.rows, until})):
            if device.at(since)[0] != "removed":
                for hour in range(since // HOUR * HOUR, end, HOUR):
                    local = datetime.fromtimestamp(hour / 1000, self.books.zone).date()
                    day = datetime(local.year, local.month, local.day, tzinfo=self.books.zone)
                    edges |= {hour, ms(day + timedelta(days=1))}
                    edges |= {at for at in range(hour, hour + HOUR, HOUR // 4) if self._turns(at)}
        return {at for at in edges if min(device.rows) <= at < until} | {until}

    def _zone(self, rule: Mapping[str, Any]) -> ZoneInfo:
        return ZoneInfo(rule["timezone"]) if "timezone" in rule else self.books.zone

    @staticmethod
    def _instant(written: str, zone: ZoneInfo) -> int:
        """A date is its first instant in the zone."""
        if "T" in written:
            return ms(datetime.fromisoformat(written))
        return ms(datetime.combine(date.fromisoformat(written), datetime.min.time(), zone))

    def _stretch(
        self,
        device: Device,
        pool: str,
        holders: Sequence[Claim],
        span: Span,
        streams: Streams,
        found: dict[tuple[Any, ...], Piece],
    ) -> None:
        start, length = span[0], span[1] - span[0]
        _, list_price = self._price(device, pool, "", None, start)
        shares = device.shares - sum(claim.place.shares for claim in holders)
        free = Fraction(shares * length, device.shares * HOUR)
        self.free.append(Free(device, pool, start, free, free * list_price, away=False))
        uses = [_use(device, claim, holders, span, streams) for claim in holders]
        energies = self._energies(device, holders, uses, span, streams)
        day = datetime.fromtimestamp(start / 1000, self.books.zone).date()
        for claim, use, energy in zip(holders, uses, energies, strict=True):
            tenant, project = self._payer(claim.job, start)
            sku, price = self._price(device, pool, tenant, claim, start)
            key = (claim.job.key, claim.start, start // HOUR, day, pool, tenant, project, sku, price)
            piece = found.setdefault(key, Piece(claim.job, device, pool, tenant, project, sku, price, start))
            hours = device.shares * HOUR
            piece.held += Fraction(claim.place.shares * length, hours)
            piece.used += Fraction(use.used, hours * 10**6)
            piece.unmetered += Fraction(claim.place.shares * (length - use.covered), hours)
            piece.kwh += energy / NANOJOULES_PER_KWH
            piece.gib_hours += Fraction(use.bytes, BYTE_MS_PER_GIB_HOUR)

    def _payer(self, job: Job, at: int) -> tuple[str, str]:
        """The rule that fits what was told, and is in force; of several the one that says more of it."""
        mapping = self.books.mapping
        reported = {"tenant": job.tenant, "project": job.project}
        fits = [
            rule
            for rule in mapping["rules"]
            if all(reported[key] == word for key, word in rule["match"].items()) and self._in_force_at(rule, at)
        ]
        none: dict[str, Any] = {}
        rule = max(fits, key=lambda one: len(one["match"]), default=none)
        return (
            rule.get("tenant", job.tenant or mapping.get("unmapped_owner", "")),
            rule.get("project", job.project),
        )

    def _price(self, device: Device, pool: str, tenant: str, claim: Claim | None, at: int) -> tuple[str, Fraction]:
        """The rule with more keys wins, then the one whose keys tell more, then one with windows. What nobody holds
        has neither tenant, profile nor queue."""
        about = {
            "tenant": tenant,
            "partition_profile": claim.place.profile if claim else "",
            "queue": claim.job.queue if claim else "",
            "preemptible": claim.job.preemptible if claim else False,
            "pool": pool,
            "cluster": device.cluster,
            "model": device.model,
        }
        fits = [
            rate
            for rate in self.books.card["rates"]
            if all(
                fnmatchcase(about[key], word) if isinstance(word, str) else about[key] == word
                for key, word in rate["match"].items()
            )
            and self._in_force_at(rate, at)
            and self._open_at(rate, at)
        ]
        reported = {id(one): [key in one["match"] for key in about] for one in fits}
        exact = {id(one): sum("*" not in str(word) for word in one["match"].values()) for one in fits}
        rate = max(fits, key=lambda one: (len(one["match"]), exact[id(one)], reported[id(one)], "windows" in one))
        return rate["sku"], self._converted(rate, at)

    def _converted(self, rate: Mapping[str, Any], at: int) -> Fraction:
        """The price in the card's currency, by the month's rate to nine digits."""
        price = Fraction(rate["price_per_gpu_hour"])
        if "currency" not in rate:
            return price
        month = f"{datetime.fromtimestamp(at / 1000, self.books.zone):%Y-%m}"
        (units,) = (
            Fraction(one["rate"])
            for one in self.books.card["exchange_rates"]
            if (one["month"], one["currency"]) == (month, rate["currency"])
        )
        return Fraction(round(price / units * 10**9), 10**9)

    def _in_force_at(self, rule: Mapping[str, Any], at: int) -> bool:
        zone = self._zone(rule)
        begun = "effective_from" not in rule or self._instant(rule["effective_from"], zone) <= at
        return begun and ("effective_to" not in rule or at < self._instant(rule["effective_to"], zone))

    def _turns(self, at: int) -> bool:
        """Whether the windows of some price open or close."""
        rates = [rate for rate in self.books.card["rates"] if "windows" in rate]
        return any(self._open_at(one, at) != self._open_at(one, at - 1) for one in rates)

    def _open_at(self, rate: Mapping[str, Any], at: int) -> bool:
        """Whether the clock on the wall shows a time of the windows; one that passes midnight is its first day's."""
        windows: Sequence[Mapping[str, Any]] | None = rate.get("windows")
        local = datetime.fromtimestamp(at / 1000, self._zone(rate))
        today, yesterday = (WEEK[(local.weekday() - back) % 7] for back in (0, 1))
        clock = f"{local:%H:%M}"
        for window in windows or ():
            since, until, days = window.get("from", "00:00"), window.get("to", "24:00"), window.get("days", WEEK)
            if today in days and since <= clock and (clock < until or until <= since):
                return True
            if yesterday in days and until <= since and clock < until:
                return True
        return windows is None

    # --- energy ------------------------------------------------------------------------------------------------------

    def _energies(
        self, device: Device, holders: Sequence[Claim], uses: Sequence[Use], span: Span, streams: Streams
    ) -> list[Fraction]:
        """Each holder's part of what the device drew in the stretch, in nanojoules."""
        measured, energy = _drawn(device, holders, span, streams)
        watts = next((Fraction(one["watts"]) for one in self.books.idle_power if one["model"] == device.model), 0)
        idle = min(energy, watts * measured * 10**6)
        average = [Fraction(use.used, use.covered) if use.covered else None for use in uses]
        together = sum((one for one in average if one is not None), Fraction(0))
        if None in average or not together:
            return [energy * Fraction(claim.place.shares, device.shares) for claim in holders]
        return [
            idle * Fraction(claim.place.shares, device.shares) + (energy - idle) * (use or 0) / together
            for claim, use in zip(holders, average, strict=True)
        ]

    # --- policies ----------------------------------------------------------------------------------------------------

    def _minimum(self, month: str, span: Span, spare: Spare, exact: dict[str, Fraction]) -> None:
        """A session that ended in the month is charged as if it had lasted the minimum: each GPU-hour that it held is
        stretched alike, at its price; not what its tenant's quotas leave unused in the hour in which it ended."""
        given = self.books.card["minimum_seconds"]
        if not isinstance(given, int):
            given = next((one["seconds"] for one in _in_force(self.books, "minimum_seconds", month)), 0)
        lacking: dict[tuple[Fraction, str, str, int], Fraction] = defaultdict(Fraction)
        for piece in self.pieces:
            start, end = self._sessions[piece.job.key]
            if span[0] < end <= span[1] and end - start < given * 1000:
                stretch = piece.held * (given * 1000 - (end - start)) / (end - start)
                lacking[piece.price, piece.sku, piece.tenant, (end - 1) // HOUR] += stretch
        for (price, sku, tenant, last), stretch in sorted(lacking.items(), key=lambda one: -one[0][0]):
            hours, unused = stretch, spare.get((tenant, last), [])
            for place, (glob, free) in enumerate(unused):
                if fnmatchcase(sku, glob):
                    taken = min(free, hours)
                    unused[place] = glob, free - taken
                    hours -= taken
            exact[tenant] += hours * price

    def _discounts(self, month: str, span: Span, pieces: Sequence[Piece], exact: dict[str, Fraction]) -> None:
        for discount in _in_force(self.books, "discounts", month):
            match = discount.get("match", {})
            by_tenant: dict[str, list[Piece]] = defaultdict(list)
            for piece in pieces:
                if piece.fits(match):
                    by_tenant[piece.tenant].append(piece)
            for tenant, matched in by_tenant.items():
                whole = sum((piece.left for piece in matched), Fraction(0))
                for piece in matched:
                    off = piece.cost_left * self._percent(discount, piece.job, span, whole) / 100
                    piece.cost_left -= off
                    exact[tenant] -= off

    def _percent(self, discount: Mapping[str, Any], job: Job, span: Span, whole: Fraction) -> Fraction:
        if "percent" in discount:
            return Fraction(discount["percent"])
        if discount.get("per", "month") == "month":
            return _earned(discount, Fraction(0), whole)
        if discount.get("measure") == "hours":
            start = self._sessions[job.key][0]
            end = max((one.end for one in self.claims if one.job is job and one.start < span[1]), default=start)
            before, after = (Fraction(max(0, min(at, end) - start), HOUR) for at in span)
        else:
            before, after = (
                sum((piece.held for piece in self._pieces_of_job[job.key] if piece.start < at), Fraction(0))
                for at in span
            )
        return _earned(discount, before, after)

    @cached_property
    def _pieces_of_job(self) -> Mapping[Name, Sequence[Piece]]:
        found: dict[Name, list[Piece]] = defaultdict(list)
        for piece in self.pieces:
            found[piece.job.key].append(piece)
        return found

    @cached_property
    def _sessions(self) -> Mapping[Name, Span]:
        """Of each job, from its first start to its last end."""
        found: dict[Name, Span] = {}
        for one in self.claims:
            start, end = found.get(one.job.key, (one.start, one.end))
            found[one.job.key] = min(start, one.start), max(end, one.end)
        return found

    def _shared(self, month: str, span: Span, pieces: Sequence[Piece]) -> Iterator[tuple[str, Decimal]]:
        """The list cost of what nobody held of a pool, in whole cents, by weight to who held some of it (or has a
        quota)."""
        rules = self.books.card.get("idle_policy", "platform")
        in_force = [] if rules == "platform" else _in_force(self.books, "idle_policy", month)
        free = [one for one in self.free if span[0] <= one.start < span[1]]
        for pool in {one.pool for one in free}:
            fits = (rule["share"] for rule in in_force if fnmatchcase(pool, rule.get("pool", "*")))
            share = next(fits, "platform")
            cost = sum((one.cost for one in free if one.pool == pool), Fraction(0))
            weights: dict[str, Fraction] = defaultdict(Fraction)
            if share == "guaranteed":
                for quota in _in_force(self.books, "commitments", month):
                    weights[quota["tenant"]] += Fraction(quota["gpus"])
            elif share != "platform":
                for piece in pieces:
                    if piece.pool == pool:
                        weights[piece.tenant] += piece.held * piece.price if share == "allocated_cost" else 0
                if share == "evenly":
                    weights = defaultdict(Fraction, dict.fromkeys(weights, Fraction(1)))
            weights.pop("", None)  # who has no name bears nothing
            bearers = sorted(tenant for tenant, weight in weights.items() if weight)
            parts = shared_out(cents(cost), [weights[tenant] for tenant in bearers]) if bearers else []
            yield from zip(bearers, parts, strict=True)


# --- time and money --------------------------------------------------------------------------------------------------


def ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def month_span(month: str, zone: ZoneInfo) -> Span:
    """From the first local midnight until the next month's."""
    year, number = int(month[:4]), int(month[5:])
    first = datetime(year, number, 1, tzinfo=zone)
    return ms(first), ms(datetime(year + number // 12, number % 12 + 1, 1, tzinfo=zone))


def cents(exact: Fraction) -> Decimal:
    """Rounded once, half to even."""
    return Decimal(round(exact * 100)).scaleb(-2)


def shared_out(total: Decimal, weights: Sequence[Fraction]) -> list[Decimal]:
    """In whole cents, by largest remainder; among equals the first."""
    whole = sum(weights, Fraction(0))
    exact = [Fraction(total) * 100 * weight / whole for weight in weights]
    amounts = [floor(part) for part in exact]
    order = sorted(range(len(weights)), key=lambda place: amounts[place] - exact[place])
    for place in order[: int(total * 100) - sum(amounts)]:
        amounts[place] += 1
    return [Decimal(amount) / 100 for amount in amounts]


# --- claims ----------------------------------------------------------------------------------------------------------


def _claims(books: Books) -> list[Claim]:
    """What the books believe of what jobs claim. First come, first served: what does not fit in when it starts is
    refused; but what has no end gives way, and ended with its last own sample. So did what is silent."""
    reported = [
        Claim(job, place, stretch.start, stretch.end)
        for job in books.jobs.values()
        for stretch in job.stretches
        for place in stretch.places
    ]
    samples: dict[Name, list[Sample]] = defaultdict(list)
    for sample in books.samples:
        samples[sample.cluster, sample.device].append(sample)
    found = []
    for key, device in books.devices.items():
        admitted: list[Claim] = []
        for claim in sorted((one for one in reported if one.device == key), key=_first):
            there = [one for one in admitted if one.start <= claim.start < one.end]
            free = device.shares - claim.place.shares - sum(one.place.shares for one in there if one.end < OPEN)
            if free < 0:
                continue
            without_end = sorted((one for one in there if one.end == OPEN), key=_first)
            free -= sum(one.place.shares for one in without_end)
            for one in without_end:
                if free < 0:
                    seen = _last_seen(one, samples[key], claim.start) or one.start
                    admitted[admitted.index(one)] = replace(one, end=max(one.start, seen))
                    free += one.place.shares
            admitted.append(claim)
        found += [_without_silence(one, samples[key]) for one in admitted]
    return _ended_together(found, [one for one in reported if one.end == OPEN], samples)


def _first(claim: Claim) -> tuple[int, str]:
    return claim.start, claim.job.name


def _last_seen(claim: Claim, samples: Sequence[Sample], until: int) -> int:
    return max((one.at for one in samples if one.workload == claim.job.name and one.at <= until), default=0)


def _without_silence(claim: Claim, samples: Sequence[Sample]) -> Claim:
    """Of what has no end the end was lost where its own samples stop a day before the device's do."""
    own = _last_seen(claim, samples, OPEN)
    last = max((one.at for one in samples), default=0)
    return replace(claim, end=own) if claim.end == OPEN and own > claim.start and last - own >= DAY else claim


def _ended_together(
    found: Sequence[Claim], without_end: Sequence[Claim], samples: Mapping[Name, Sequence[Sample]]
) -> list[Claim]:
    """A job whose end was lost on a device ended then on those, too, where it was never seen; not if it may be alive
    on one where it was."""
    newest = max((one.at for some in samples.values() for one in some), default=0)
    by_job: dict[Name, list[Claim]] = defaultdict(list)
    for claim in found:
        by_job[claim.job.key].append(claim)
    together = []
    for claims in by_job.values():
        had_none = [(one.job.key, one.place, one.start) for one in without_end]
        lost = [
            one.end for one in claims if one.start < one.end < OPEN and (one.job.key, one.place, one.start) in had_none
        ]
        still = [one for one in claims if one.end == OPEN]
        seen = [_last_seen(one, samples[one.device], OPEN) for one in still]
        is_over = all(last <= min(one.start, newest - DAY) for one, last in zip(still, seen, strict=True))
        for one in claims:
            is_known = one.end < OPEN or not lost or not is_over
            together.append(one if is_known else replace(one, end=max(lost) if max(lost) > one.start else OPEN))
    return together


# --- samples ---------------------------------------------------------------------------------------------------------


def _streams(samples: Iterable[Sample]) -> Streams:
    """A sample covers from its interval's start, or the sample before it if that is later. Of several of one key the
    highest use counts, the highest power, and the most memory."""
    reported: dict[tuple[Name, str, str], dict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for one in samples:
        reported[(one.cluster, one.device), one.partition, one.workload][one.at].append(one)
    streams: dict[tuple[Name, str, str], list[Cover]] = {}
    for stream, by_instant in reported.items():
        previous, covers = 0, []
        for at in sorted(by_instant):
            those = by_instant[at]
            uses = [one.use for one in those if one.state in ("ok", "idle") and one.use is not None]
            counted = [one for one in those if one.state in ("ok", "idle", "unsupported")]
            watts = [
                one.watts for one in counted if one.watts is not None and (one.watts or one.state != "unsupported")
            ]
            sizes = [one.bytes for one in counted if one.bytes is not None]
            since = max(previous, at - max(one.length for one in those))
            values = (max(found, default=None) for found in (uses, watts, sizes))
            covers.append(Cover(since, at, *values))
            previous = at
        streams[stream] = covers
    return streams


def _within(covers: Sequence[Cover], span: Span) -> Iterator[Cover]:
    """Cut to the span."""
    for place in range(bisect_left(covers, span[0] + 1, key=lambda one: one.end), len(covers)):
        one = covers[place]
        if one.start >= span[1]:
            return
        yield Cover(max(one.start, span[0]), min(one.end, span[1]), one.use, one.watts, one.bytes)


def _use(device: Device, claim: Claim, holders: Sequence[Claim], span: Span, streams: Streams) -> Use:
    """The streams that speak of the holder, the most telling first: at every instant the first that says something."""
    name, place = claim.job.name, claim.place
    ways = [(place.partition, name), (place.partition, "")] if place.partition else []
    ways += [("", name), *([("", "")] if len(holders) == 1 else [])]
    said = [(way, list(_within(streams.get((device.key, *way), ()), span))) for way in ways]
    edges = sorted({*span, *(at for _, covers in said for one in covers for at in (one.start, one.end))})
    use = Use()
    for start, end in pairwise(edges):
        for (partition, _), covers in said:
            known = [one.use for one in covers if one.start <= start < one.end and one.use is not None]
            if known:
                used = known[0] * (place.shares if partition else device.shares)
                use.covered += end - start
                use.used += min(used, place.shares * 10**6) * (end - start)
                break
    for _, covers in said:
        sized = [one for one in covers if one.bytes is not None and one.start < one.end]
        if sized:
            use.bytes = sum((one.end - one.start) * (one.bytes or 0) for one in sized)
            break
    return use


def _drawn(device: Device, holders: Sequence[Claim], span: Span, streams: Streams) -> tuple[int, int]:
    """Measured ms of a stretch, and nanojoules. Everybody's rows speak of it, and those of whoever is alone there."""
    speakers = ["", *(claim.job.name for claim in holders if len(holders) == 1)]
    said = []
    for workload in speakers:
        covers = [one for one in _within(streams.get((device.key, "", workload), ()), span) if one.watts is not None]
        covers = [one for one in covers if one.start < one.end]
        if covers:
            measured = sum(one.end - one.start for one in covers)
            energy = sum((one.end - one.start) * (one.watts or 0) * 10**6 for one in covers)
            said.append((measured, energy, covers[0].start, covers[-1].end))
    if not said:
        return 0, 0
    if max(one[2] for one in said) >= min(one[3] for one in said):
        return sum(one[0] for one in said), sum(one[1] for one in said)
    return max((one[0], one[1]) for one in said)


# --- policies --------------------------------------------------------------------------------------------------------


def _in_force(books: Books, kind: str, month: str) -> list[dict[str, Any]]:
    return [
        policy
        for policy in books.card.get(kind, ())
        if policy.get("effective_from", month) <= month and month < policy.get("effective_to", "9999-99")
    ]


def _components(books: Books, month: str, pieces: Sequence[Piece], exact: dict[str, Fraction]) -> None:
    """Measured kWh x PUE, and GiB-hours, at their price."""
    for component in _in_force(books, "components", month):
        for piece in pieces:
            if piece.fits(component.get("match", {})):
                is_energy = component["kind"] == "energy"
                quantity = piece.kwh * Fraction(component.get("pue", "1")) if is_energy else piece.gib_hours
                exact[piece.tenant] += quantity * Fraction(component["price"])


def _commitments(
    books: Books, month: str, span: Span, pieces: Sequence[Piece], exact: dict[str, Fraction]
) -> dict[tuple[str, int], list[tuple[str, Fraction]]]:
    """Quotas are paid for every hour; each covers, in the card's order, the dearest first. Answers what is unused."""
    spare: dict[tuple[str, int], list[tuple[str, Fraction]]] = defaultdict(list)
    by_hour: dict[tuple[str, int], list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_hour[piece.tenant, piece.hour].append(piece)
    for quota in _in_force(books, "commitments", month):
        tenant, gpus = quota["tenant"], Fraction(quota["gpus"])
        exact[tenant] += gpus * Fraction(span[1] - span[0], HOUR) * Fraction(quota["price_per_gpu_hour"])
        for hour in range(span[0] // HOUR, -(-span[1] // HOUR)):
            within = min(span[1], (hour + 1) * HOUR) - max(span[0], hour * HOUR)
            unused = gpus * Fraction(within, HOUR)
            for piece in sorted(
                by_hour.get((tenant, hour), ()), key=lambda one: (-one.price, one.start, one.device.key, one.job.name)
            ):
                if fnmatchcase(piece.sku, quota.get("sku", "*")):
                    taken = min(piece.left, unused)
                    piece.left -= taken
                    piece.cost_left -= taken * piece.price
                    exact[tenant] -= taken * piece.price
                    unused -= taken
            spare[tenant, hour].append((quota.get("sku", "*"), unused))
    return spare


def _earned(discount: Mapping[str, Any], before: Fraction, after: Fraction) -> Fraction:
    """Percent on average of what lies between two quantities; `whole`: what the last tier reached says, of all."""
    if after <= before:
        return Fraction(0)
    bounds = [(Fraction(tier.get("from", tier.get("above"))), Fraction(tier["percent"])) for tier in discount["tiers"]]
    if discount.get("mode") == "whole":
        reached = [
            percent
            for (bound, percent), tier in zip(bounds, discount["tiers"], strict=True)
            if after > bound or (after == bound and "from" in tier)
        ]
        return reached[-1] if reached else Fraction(0)
    earned = Fraction(0)
    for number, (bound, percent) in enumerate(bounds):
        end = bounds[number + 1][0] if number + 1 < len(bounds) else after
        earned += percent * max(Fraction(0), min(after, end) - max(before, bound))
    return earned / (after - before)


def _taxed(books: Books, tenant: str, month: str, net: Decimal) -> Owed:
    """Of taxes of one name the first that fits."""
    taxes: dict[str, Decimal] = {}
    for tax in _in_force(books, "taxes", month):
        if fnmatchcase(tenant, tax.get("tenant", "*")):
            taxes.setdefault(tax["name"], cents(Fraction(net) * Fraction(tax["percent"]) / 100))
    return Owed(net, sum(taxes.values(), Decimal("0.00")))
