"""A cycle's trial: takes and releases capacity on the cluster and the quota trees; all is undone when the trial ends.

A promise holds capacity from a time on. A job that would still run then may take only what the promise leaves over; a
job that ends before may take anything. `extra` is what a promise leaves over on each device and node that it uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import Self

from scheduler.cycle.accounts import NO_SURPLUS, Account, Amount, Surplus
from scheduler.cycle.policies import Reservation
from scheduler.cycle.promises import Promise, consume, leaves
from scheduler.cycle.state import FOREVER, JobClass, State, amount_of, units_of
from scheduler.model import Grant, NodeState, Privileged, Request
from scheduler.placement.engine import place_gang
from scheduler.placement.errors import PlacementError
from scheduler.placement.headroom import USABLE
from scheduler.quota.tree import UNLIMITED

LEAST_OVERDUE_SECONDS, OVERDUE_SECONDS = 1.0, 60.0
"""A job past its time limit is expected to end after as long again as it is late, within these bounds. It is probably
being stopped; otherwise capacity that is free in the meantime would go to others, and delay a job that needs all."""


CAREFUL_STEPS = 256
Event = tuple[float, tuple[Grant, ...], Request | None]
"""(when, grants that are freed then, their request)."""


class Trial:
    """Use it in a `with` statement; afterwards the state is as before.

    started: (latest end, grants, request) of each start in the trial.   started_ids: their jobs.   started_units:
    (latest end, account, units) of each.   changed: grants of running jobs that the trial resizes or preempts.
    changes: counts the changes of the trees.
    """

    def __init__(self, state: State, now: float) -> None:
        self.state, self.now, self.cluster, self.accounts = state, now, state.cluster, state.accounts
        self.promises: list[Promise] = []
        self.kept_back = False
        self.changes = 0
        self.started: list[tuple[float, tuple[Grant, ...], Request]] = []
        self.started_ids: set[str] = set()
        self.started_units: list[tuple[float, Account, int]] = []
        self.changed: dict[str, tuple[Grant, ...]] = {}
        self._charges: list[tuple[Account, Amount, bool]] = []
        self._ends: list[Event] = []
        self._windows = [window for window in state.reservations if window.end > now]
        self._shut: dict[float, frozenset[int]] = {}
        self._capacities: dict[frozenset[int], tuple[Mapping[str, int], Mapping[str, int] | None]] = {}
        self._limited: dict[Account, bool] = {}
        self._over: dict[tuple[float, int, int], dict[Account, tuple[int, int]]] = {}

    def __enter__(self) -> Self:
        self._mark = self.cluster.mark()
        return self

    def __exit__(self, *_: object) -> None:
        self.undo_charges(0)
        self.cluster.rollback(self._mark)

    def grants(self, job_id: str) -> tuple[Grant, ...]:
        """The grants of a running job in this trial; empty if it was preempted."""
        changed = self.changed.get(job_id)
        return self.state.running[job_id].grants if changed is None else changed

    # Quotas

    def charge(
        self, kind: JobClass, units: int, replicas: int, surplus: Surplus = NO_SURPLUS, unusable: int = 0
    ) -> None:
        """Charges units, with the CPUs and memory of the replicas, to the trees, or gives them back if negative.
        surplus: the part beyond smallest gangs; unusable: on nodes that are no capacity now; with the same sign."""
        added = units > 0 or replicas > 0
        amount = amount_of(kind.request, abs(units), abs(replicas), surplus if added else -surplus, abs(unusable))
        (self.accounts.add if added else self.accounts.remove)(kind.account, amount)
        self._charges.append((kind.account, amount, added))
        self.changes += 1

    @property
    def charges(self) -> int:
        """A position for `undo_charges`."""
        return len(self._charges)

    def charged_since(self, position: int) -> set[Account]:
        """Accounts whose charges changed since `charges` returned this position."""
        return {account for account, *_ in self._charges[position:]}

    def undo_charges(self, position: int) -> None:
        while len(self._charges) > position:
            account, amount, added = self._charges.pop()
            self.changes += 1
            (self.accounts.remove if added else self.accounts.add)(account, amount)

    def leaves_limits(
        self, kind: JobClass, units: int, until: float, entitled: bool = False, charged: bool = False
    ) -> bool:
        """Whether a job of the class can take so many units now until then without using quota that jobs with earlier
        promises need.   charged: it is in the trees already, as the class's amount."""
        concerned = [p for p in self.promises if p.start < until and (p.entitled or not entitled)]
        if not concerned:
            return True
        if charged:
            self.accounts.remove(kind.account, Amount(kind.amount))
        leaves = self._spares(kind, units, concerned)
        if charged:
            self.accounts.add(kind.account, Amount(kind.amount))
        return leaves

    def _within_limits(self, kind: JobClass, units: int, start: float, end: float) -> bool:
        """As `leaves_limits`, for a job promised [start, end); and whether limits allow it at all then."""
        if self._has_limits(kind.account):
            others = [self._asks(other) for other in self.promises if other.start <= start < other.end]
            if not self._allowed_at(start, kind.account, units, others):
                return False
        return self._spares(kind, units, [other for other in self.promises if start < other.start < end])

    def _spares(self, kind: JobClass, units: int, concerned: Sequence[Promise]) -> bool:
        """Whether limits still allow these promises if a job of the class holds so many units at the same time."""
        for one in concerned:
            account, amount = self._asks(one)
            if not units or not self._has_limits(account):
                continue
            others = [self._asks(p) for p in self.promises if p is not one and p.start <= one.start < p.end]
            with_it = [*others, (kind.account, units)]
            if not self._allowed_at(one.start, account, amount, with_it) and self._allowed_at(
                one.start, account, amount, others
            ):
                return False
        return True

    def _asks(self, promise: Promise) -> tuple[Account, int]:
        return self.state.pending[promise.job_id][1].account, units_of(promise.grants)

    def _has_limits(self, account: Account) -> bool:
        found = self._limited.get(account)
        if found is None:
            accounts = self.accounts
            found = accounts.allowed_ever(account) < UNLIMITED or accounts.is_kept_short(account)
            self._limited[account] = found
        return found

    def _allowed_at(self, at: float, account: Account, amount: int, others: Sequence[tuple[Account, int]]) -> bool:
        """Whether limits, and what is kept for others, allow an amount at a time, given the others and the jobs that
        run then."""
        if not self.accounts.is_kept_short(account):
            return self._leaves_at(at, amount, others, lambda: self.accounts.allowed(account))
        with self._capacity_at(at):
            return self._leaves_at(at, amount, others, lambda: self.accounts.room(account))

    def _leaves_at(
        self, at: float, amount: int, others: Sequence[tuple[Account, int]], left: Callable[[], int]
    ) -> bool:
        for those, units in others:
            self.accounts.add(those, Amount(units))
        found = left() >= amount
        if not found:
            over = self._over_by(at)
            for those, (units, unusable) in over.items():
                self.accounts.remove(those, Amount(units, unusable=unusable))
            found = left() >= amount
            for those, (units, unusable) in over.items():
                self.accounts.add(those, Amount(units, unusable=unusable))
        for those, units in others:
            self.accounts.remove(those, Amount(units))
        return found

    @contextmanager
    def _capacity_at(self, at: float) -> Iterator[None]:
        """Lets the trees see the nodes that are capacity at a time, and what runs now on those that are not."""
        state, accounts = self.state, self.accounts
        now, then = self._shut_at(self.now), self._shut_at(at)
        if now == then:
            yield
            return
        moved: list[tuple[Account, Amount, Amount]] = []
        for node in now ^ then:
            for job_id in state.on_node.get(node, ()) if self.cluster.states[node] in USABLE else ():
                units = units_of([grant for grant in self.grants(job_id) if grant.node == node])
                here, away = Amount(units), Amount(units, unusable=units)
                moved.append((state.running[job_id].kind.account, *((here, away) if node in then else (away, here))))
        for account, before, after in moved:
            accounts.remove(account, before)
            accounts.add(account, after)
        accounts.set_capacity(*self._capacity_without(then))
        try:
            yield
        finally:
            for account, before, after in moved:
                accounts.remove(account, after)
                accounts.add(account, before)
            accounts.set_capacity(*self._capacity_without(now))

    def _capacity_without(self, shut: frozenset[int]) -> tuple[Mapping[str, int], Mapping[str, int] | None]:
        if shut not in self._capacities:
            mark = self.cluster.mark()
            self.cluster.shut_nodes(shut)
            self._capacities[shut] = self.state.capacity()
            self.cluster.rollback(mark)
        return self._capacities[shut]

    def _over_by(self, at: float) -> Mapping[Account, tuple[int, int]]:
        """Units by account of jobs that run or start in this trial and will have ended by then, and of them those on
        nodes that are no capacity then."""
        key = (at, len(self.started_units), len(self.changed))
        found = self._over.get(key)
        if found is None:
            found, shut = {}, self._shut_at(at)
            self._over[key] = found
            states = self.cluster.states
            for end, job_id in self.state.ends:
                if end > at:
                    break
                account, grants = self.state.running[job_id].kind.account, self.grants(job_id)
                units, unusable = found.get(account, (0, 0))
                away = units_of([one for one in grants if one.node in shut or states[one.node] not in USABLE])
                found[account] = units + units_of(grants), unusable + away
            for end, account, started in self.started_units:
                if end <= at:
                    units, unusable = found.get(account, (0, 0))
                    found[account] = units + started, unusable
        return found

    # Placement

    def until(self, time_limit: float | None) -> float:
        """The latest end of a job that starts now."""
        return FOREVER if time_limit is None else self.now + time_limit

    def place(
        self, request: Request, replicas: int, tenant: str, until: float, entitled: bool = False
    ) -> tuple[Grant, ...] | None:
        """Takes a grant for each replica, respecting windows and promises until then; None: not all fit.

        entitled: respect only promises to entitled jobs.   Sets `kept_back`: whether only promises and windows block
        it.
        """
        self.kept_back = False
        closed, concerned = self._in_the_way(tenant, until, entitled)
        if not closed and not concerned:
            return place_gang(self.cluster, request, replicas, self.state.placement)
        mark, shut = self.cluster.mark(), self.cluster.shut
        self.cluster.shut_nodes(frozenset())
        grants = place_gang(self.cluster, request, replicas, self.state.placement)
        if grants is None:
            self.cluster.rollback(mark)
            return None
        in_the_way = bool(shut) or bool(closed.intersection(g.node for g in grants))
        if not in_the_way and all(self._leaves(p, grants, request) for p in concerned):
            self.cluster.keep(mark)
            return grants
        self.cluster.rollback(mark)
        mark = self.cluster.mark()
        self._close(closed)
        for promise in concerned:
            self._hold(promise)
        grants = place_gang(self.cluster, request, replicas, self.state.placement)
        self.cluster.rollback(mark)
        self.kept_back = grants is None
        self._take(grants, request)
        return grants

    def place_within(
        self, request: Request, replicas: int, tenant: str, until: float, units: int, entitled: bool = False
    ) -> tuple[Grant, ...] | None:
        """As `place`, of no more than so many device units: if it chooses more, once again on smaller devices."""
        grants = self.place(request, replicas, tenant, until, entitled)
        if grants is None or units_of(grants) <= units:
            return grants
        self.give_back(grants, request)
        smaller = self.state.within(request, replicas, units)
        return None if smaller is None else self.place(smaller, replicas, tenant, until, entitled)

    def place_at(
        self, grants: tuple[Grant, ...], request: Request, tenant: str, until: float, entitled: bool = False
    ) -> tuple[Grant, ...] | None:
        """Takes exactly these grants, with the same conditions as `place`; None: they are not free."""
        closed, concerned = self._in_the_way(tenant, until, entitled)
        if closed.intersection(grant.node for grant in grants) or not self._is_free(grants, request, self.now):
            return None
        if not all(self._leaves(promise, grants, request) for promise in concerned):
            return None
        self._take(grants, request)
        return grants

    def _in_the_way(self, tenant: str, until: float, entitled: bool) -> tuple[set[int], list[Promise]]:
        """Nodes that windows close to the tenant before then, and promises to respect."""
        concerned = [p for p in self.promises if p.start < until and (p.entitled or not entitled)]
        return self._closed(tenant, self.now, until), concerned

    def place_reserved(self, request: Request, replicas: int, tenant: str, until: float) -> tuple[Grant, ...] | None:
        """As `place`, only on nodes reserved for the tenant, while they are. Promises that begin before the reservation
        ends are to jobs of its tenants, and come first."""
        windows = [w for w in self._windows if w.start <= self.now and tenant in w.tenants and until <= w.end]
        nodes = frozenset(node for window in windows for node in window.nodes)
        if not nodes:
            return None
        mark = self.cluster.mark()
        self._close(number for number in range(len(self.cluster.nodes)) if number not in nodes)
        self._close(self._closed(tenant, self.now, until))
        for promise in self.promises:
            if promise.start < until:
                self._hold(promise)
        grants = place_gang(self.cluster, request, replicas, self.state.placement)
        self.cluster.rollback(mark)
        self._take(grants, request)
        return grants

    def windows_for(self, tenant: str, until: float) -> list[Reservation]:
        """Windows that close nodes to the tenant before then."""
        return [window for window in self._windows if window.start < until and tenant not in window.tenants]

    def closed_now(self, tenant: str) -> Mapping[int, NodeState]:
        """Available nodes that windows close to the tenant now, with the state that they are in for it."""
        shut = self._shut_at(self.now)
        return {
            node: "maintenance" if node in shut else "reserved"
            for window in self._windows
            if window.start <= self.now and tenant not in window.tenants
            for node in window.nodes
            if self.cluster.open[node]
        }

    def settle(self, grants: Sequence[Grant], request: Request, until: float) -> None:
        """Keeps taken grants: consumes what promises leave over, if the grants last that long."""
        for promise in self.promises:
            if promise.start < until:
                self.consume(promise, grants, request)

    def consume(self, promise: Promise, grants: Sequence[Grant], request: Request, times: int = 1) -> None:
        """Consumes what a promise leaves over, also of headroom for ordinary jobs."""
        consume(promise, grants, request, times)
        for kind, taken in self._ordinary(grants, request, promise.start).items():
            if kind in promise.spare:
                promise.spare[kind] -= times * taken

    def _ordinary(self, grants: Iterable[Grant], request: Request, at: float) -> Counter[int]:
        """Units by kind that the grants take of the headroom for ordinary jobs at a time."""
        found: Counter[int] = Counter()
        if self.cluster.headroom is not None:
            shut = self._shut_at(at)
            for grant in grants:
                if self.cluster.states[grant.node] in USABLE and grant.node not in shut:
                    found.update(self.cluster.headroom.of(grant, request))
        return found

    def _shut_at(self, at: float) -> frozenset[int]:
        """Nodes that are shut then."""
        if not self._windows:
            return frozenset()
        if at not in self._shut:
            self._shut[at] = self.state.shut(at)
        return self._shut[at]

    def _leaves(self, promise: Promise, grants: Sequence[Grant], request: Request) -> bool:
        """Whether the grants take no more than the promise leaves over."""
        taken = self._ordinary(grants, request, promise.start) if promise.spare else Counter[int]()
        spares = all(taken[kind] <= left for kind, left in promise.spare.items() if taken[kind])
        return spares and leaves(promise, grants, request)

    def give_back(self, grants: Iterable[Grant], request: Request) -> None:
        for grant in grants:
            self.cluster.give_back(grant, request)

    def keep_off(self, leaving: Iterable[tuple[Grant, ...]]) -> None:
        """Takes all free capacity on the devices of jobs that have not left yet."""
        places = {(grant.node, device): (0, 0) for grants in leaving for grant in grants for device in grant.devices}
        self._hold(Promise("", self.now, self.now, (), Request(0), places, {}, self.now))

    # Promises

    def promise(self, job_id: str, kind: JobClass, time_limit: float | None, at_once: bool = False) -> Promise | None:
        """A promise from the earliest time at which the job could run to its limit; None if no known end makes room.

        Running jobs are assumed to end at their limits, those without one never.   at_once: consider now as well.
        """
        mark = self.cluster.mark()
        found = self._first(job_id, kind, FOREVER if time_limit is None else time_limit, at_once)
        self.cluster.rollback(mark)
        return found

    def _first(self, job_id: str, kind: JobClass, lasts: float, at_once: bool) -> Promise | None:
        """Searches the future in growing steps, then back for the first instant at which the job fits.

        With windows and promises ahead, a later time may fit worse; then it searches the first many instants one by
        one.
        """
        events = [(self.now, (), None)] * at_once + self._events()
        careful = CAREFUL_STEPS if self._windows or self.promises else 0
        suits = self.cluster.shape(kind.request).suits
        free = int(self.cluster.free[suits].sum())
        position, step = 0, 1
        while position < len(events):
            mark, begin = self.cluster.mark(), position
            while position < len(events) and (position < begin + step or free < kind.least):
                free += sum(sum(grant.units) for grant in self._release(events[position]) if suits[grant.node])
                position += 1
            found = self._promise_after(job_id, kind, events, position, lasts) if free >= kind.least else None
            if found is not None and (careful or position - begin == 1):
                return found
            if found is not None:
                self.cluster.rollback(mark)
                return self._between(job_id, kind, events, begin, position, lasts)
            careful = max(0, careful - 1)
            step = 1 if careful else 2 * step
        return None

    def _between(
        self, job_id: str, kind: JobClass, events: Sequence[Event], low: int, high: int, lasts: float
    ) -> Promise | None:
        """Bisects events: the job does not fit after the first `low` of them, and does after `high`."""
        best: Promise | None = None
        while high - low > 1:
            middle, mark = (low + high) // 2, self.cluster.mark()
            for event in events[low:middle]:
                self._release(event)
            found = self._promise_after(job_id, kind, events, middle, lasts)
            if found is None:
                low = middle
            else:
                self.cluster.rollback(mark)
                best, high = found, middle
        if best is None:
            for event in events[low:high]:
                self._release(event)
            best = self._promise_after(job_id, kind, events, high, lasts)
        return best

    def _events(self) -> list[Event]:
        """Future changes of capacity, in order."""
        events = self._ends.copy() if self._ends and not self.changed else self._running_end()
        events += [started for started in self.started if started[0] < FOREVER]
        events += [(window.end, (), None) for window in self._windows]
        events += [(promise.end, (), None) for promise in self.promises if promise.end < FOREVER]
        events.sort(key=lambda event: event[0])
        return events

    def _running_end(self) -> list[Event]:
        """Ends of running jobs; cached until the trial preempts one."""
        events: list[Event] = []
        for end, job_id in self.state.ends:
            grants = self.grants(job_id)
            if grants:
                request = self.state.running[job_id].job.request
                late = max(LEAST_OVERDUE_SECONDS, self.now - end)
                events.append((end if end > self.now else self.now + min(late, OVERDUE_SECONDS), grants, request))
        if not self.changed:
            self._ends = events.copy()
        return events

    def _release(self, event: Event) -> tuple[Grant, ...]:
        _, grants, request = event
        if request is not None:
            self.give_back(grants, request)
        return grants

    def _promise_after(
        self,
        job_id: str,
        kind: JobClass,
        events: Sequence[Event],
        position: int,
        lasts: float,
    ) -> Promise | None:
        """A promise from the event at `position` on, if the job then fits for its duration."""
        start = events[position - 1][0]
        same = takewhile(lambda event: event[0] == start, islice(events, position, None))
        return self._from_here(job_id, kind, start, lasts, self.now, ends=same)

    def promise_again(self, old: Promise, kind: JobClass) -> Promise | None:
        """Repeats a promise at the same places, from now on if its time has passed; None if they will not be free."""
        start, mark = max(old.start, self.now), self.cluster.mark()
        for event in self._events():
            if event[0] <= start:
                self._release(event)
        found = self._from_here(old.job_id, kind, start, old.end - old.start, old.made_at, old.grants)
        self.cluster.rollback(mark)
        return found

    def _from_here(
        self,
        job_id: str,
        kind: JobClass,
        start: float,
        lasts: float,
        made_at: float,
        at: tuple[Grant, ...] | None = None,
        ends: Iterable[Event] = (),
    ) -> Promise | None:
        """A promise from an instant on, which the cluster represents, at these places or wherever the job fits; None if
        it does not fit for its duration.   ends: other jobs that end at that instant."""
        cluster, end = self.cluster, start + lasts
        if not self._within_limits(kind, kind.least, start, end):
            return None
        outer = cluster.mark()
        cluster.shut_nodes(self._shut_at(start))
        self._close(self._closed(kind.account.tenant, start, end))
        for other in self.promises:
            if other.start <= start < other.end:
                self._occupy(other)
        inner = cluster.mark()
        for other in self.promises:
            if start < other.start < end:
                self._hold(other)
        if at is None:
            grants = self._place_then(kind, start, end)
        else:
            fits = self._is_free(at, kind.request, start) and self._within_limits(kind, units_of(at), start, end)
            grants = at if fits else None
        cluster.rollback(inner)
        found = None
        if grants is not None:
            own = {grant.node for grant in grants}
            for _, those, request in ends:
                if request is not None:
                    there = those if cluster.headroom is not None else [one for one in those if one.node in own]
                    self.give_back(there, request)
            self._take(grants, kind.request)
            found = self._promised(job_id, kind, grants, start, lasts, made_at)
        cluster.rollback(outer)
        return found

    def _place_then(self, kind: JobClass, start: float, end: float) -> tuple[Grant, ...] | None:
        """Takes a grant for each replica on the cluster, which is as of the start; on smaller devices, if limits do not
        allow those that it chooses."""
        request: Request | None = kind.request
        while request is not None:
            mark = self.cluster.mark()
            grants = place_gang(self.cluster, request, kind.replicas, self.state.placement)
            if grants is None or self._within_limits(kind, units_of(grants), start, end):
                self.cluster.keep(mark)
                return grants
            self.cluster.rollback(mark)
            request = self.state.within(kind.request, kind.replicas, units_of(grants) - 1)
        return None

    def _is_free(self, grants: tuple[Grant, ...], request: Request, at: float) -> bool:
        """Whether the grants could be taken on the cluster, which is as of that time."""
        if not all(self.cluster.open[grant.node] for grant in grants):
            return False
        mark = self.cluster.mark()
        try:
            self._take(grants, request)
            return all(left >= 0 for left in self._left(grants, request, at).values())
        except PlacementError:  # a job still runs there
            return False
        finally:
            self.cluster.rollback(mark)

    def _occupy(self, promise: Promise) -> None:
        """Takes what the promise holds, at an instant within it; for a MIG device the whole node, as before it
        begins."""
        cluster = self.cluster
        if cluster.cut and any(cluster.geometries[cluster.kind[at]] is not None for at in promise.extra):
            self._hold(promise)
            return
        mark = cluster.mark()
        try:
            self._take(promise.grants, promise.request)
        except PlacementError:  # a job exceeds its limit, or had a better right to the place
            cluster.rollback(mark)
            self._hold(promise)
        else:
            cluster.keep(mark)

    def _promised(
        self, job_id: str, kind: JobClass, grants: tuple[Grant, ...], start: float, lasts: float, made_at: float
    ) -> Promise:
        """Makes a promise of grants that are taken on the cluster as of its start."""
        cluster = self.cluster
        places = {(grant.node, device) for grant in grants for device in grant.devices}
        extra = {at: (int(cluster.free[at]), int(cluster.memory_free[at])) for at in places}
        hosts = {g.node: (int(cluster.cpu_free[g.node]), int(cluster.host_memory_free[g.node])) for g in grants}
        entitled = self.accounts.covers(kind.account, kind.amount)
        spare = self._left(grants, kind.request, start)
        return Promise(job_id, start, start + lasts, grants, kind.request, extra, hosts, made_at, entitled, spare)

    def _left(self, grants: Iterable[Grant], request: Request, at: float) -> dict[int, int]:
        """What ordinary jobs may still take of the kinds in the grants, on the cluster as of that time."""
        headroom = self.cluster.headroom
        left = [] if headroom is None else headroom.left().tolist()
        return {kind: left[kind] for kind in self._ordinary(grants, request, at)}

    def lay(self, own: Promise) -> None:
        """Adds a promise; promises that begin within it have less left over."""
        self._put(own, len(self.promises))

    def withdraw(self, own: Promise) -> None:
        """Removes a promise; promises that begin within it have more left over."""
        self.promises.remove(own)
        for other in self._within(own):
            self.consume(other, own.grants, own.request, -1)

    def restore(self, own: Promise, place: int) -> None:
        """Reverses `withdraw`.   place: the promise's index in `promises`."""
        self._put(own, place)

    def _put(self, own: Promise, place: int) -> None:
        for other in self._within(own):
            self.consume(other, own.grants, own.request)
        self.promises.insert(place, own)

    def _within(self, own: Promise) -> list[Promise]:
        """Other promises that begin while this one holds capacity."""
        return [other for other in self.promises if own.start <= other.start < own.end]

    def blockers(self, promise: Promise, most: int = 8) -> tuple[str, ...]:
        """Running jobs that hold what is promised, the last to end first."""
        places = {(grant.node, device) for grant in promise.grants for device in grant.devices}
        there = set().union(*(self.state.on_node[node] for node, _ in places))
        found = [
            (self.state.running[job_id].ends_by, job_id)
            for job_id in there
            if self.state.running[job_id].ends_by <= promise.start
            and any((grant.node, device) in places for grant in self.grants(job_id) for device in grant.devices)
        ]
        return tuple(job_id for _, job_id in sorted(found, reverse=True)[:most])

    # Internal

    def _closed(self, tenant: str, start: float, end: float) -> set[int]:
        """Nodes that a window closes to the tenant at any time in [start, end)."""
        return {
            node
            for window in self._windows
            if window.start < end and start < window.end and tenant not in window.tenants
            for node in window.nodes
        }

    def _close(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if self.cluster.open[node]:
                self.cluster.set_state(node, "reserved")

    def _hold(self, promise: Promise) -> None:
        """Takes all that is free now beyond what the promise leaves over at its start; for a MIG device, the whole
        node."""
        cluster = self.cluster
        for (node, device), (units, memory) in promise.extra.items():
            if cluster.geometries[cluster.kind[node, device]] is not None:
                self._close((node,))
                continue
            kept = max(0, int(cluster.free[node, device]) - max(0, units))
            bytes_kept = max(0, int(cluster.memory_free[node, device]) - max(0, memory))
            if kept or bytes_kept:
                uncounted = frozenset((cluster.nodes[node].pool,))  # `spare` limits ordinary jobs already
                cluster.take(
                    Grant(node, (device,), (kept,)), Privileged(1, max(1, kept), bytes_kept, kept_in=uncounted)
                )
        for kind, spare in promise.spare.items():
            assert cluster.headroom is not None
            kept = int(cluster.headroom.left()[kind]) - max(0, spare)
            if kept > 0:
                cluster.hold_back(kind, kept)
        for node, (cpu, memory) in promise.extra_host.items():
            kept_cpu = max(0, int(cluster.cpu_free[node]) - max(0, cpu))
            kept_memory = max(0, int(cluster.host_memory_free[node]) - max(0, memory))
            if kept_cpu or kept_memory:
                cluster.take(Grant(node, (), ()), Request(0, cpu_milli=kept_cpu, host_memory_bytes=kept_memory))

    def _take(self, grants: tuple[Grant, ...] | None, request: Request) -> None:
        for grant in grants or ():
            self.cluster.take(grant, request)
