"""Capacity from the books: drawn clusters against a reckoning by hand, and whose figures these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml

from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from api.capacity import Priced, notes, simulation_document, what_if, workloads_of
from billing.close import close
from billing.insights.capacity import Waits, asking, capacity, demand
from billing.periods import Period
from billing.rates import apply_rate_card, parse_rate_card
from scheduler.simulate.books.apart import Simulations
from scheduler.simulate.books.reading import read_workloads
from scheduler.simulate.books.what_if import as_it_was, simulated
from scheduler.simulate.books.workload import BookJob, Change, Group, Slot, Workload
from tests.api.drawn_capacity import BOOKS, HOUR, PERIOD, UNTIL, Cluster, Device, Drawn, clusters, write
from tests.draws import keep_seed, seldom
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store

CARD = """
currency: EUR
rates:
  - {sku: h100, match: {model: H100}, price_per_gpu_hour: "2.00"}
  - {sku: h100-vision, match: {model: H100, tenant: vision}, price_per_gpu_hour: "1.50"}
"""


@pytest.fixture(scope="module")
def drawn() -> list[Cluster]:
    return clusters(keep_seed())


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory, drawn: Sequence[Cluster]) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("capacity") / "store") as store:
        apply_rate_card(store, parse_rate_card(yaml.safe_load(CARD), "card"), "test", "", BOOKS)
        write(store, drawn)
        close(store, until=UNTIL, now=UNTIL + HOUR)
        assert store.value("SELECT count() FROM refused_claims") == 0
        yield store


def within(span: tuple[datetime, datetime], start: datetime, end: datetime) -> float:
    """Hours of the span that lie in [start, end)."""
    return max(0.0, (min(span[1], end) - max(span[0], start)) / HOUR)


def kind(job: Drawn) -> tuple[str, str]:
    """Pool and model of its first device, as the books order them."""
    first = min((device for device, _ in job.places), key=lambda one: one.name)
    return first.pool, first.model


def test_demand_by_hour_is_what_is_reckoned_by_hand(books: Store, drawn: Sequence[Cluster]) -> None:
    for cluster in drawn:
        for chosen in ({}, {"tenants": ["vision"], "queues": ["main"]}):
            ours = [job for job in cluster.jobs if not chosen or (job.tenant, job.queue) == ("vision", "main")]
            rows = demand(asking(books, Period(*PERIOD), clusters=[cluster.name], **chosen))
            assert [row["step"] for row in rows] == [PERIOD[0] + number * HOUR for number in range(24)]
            for row in rows:
                start, end = row["step"], row["step"] + HOUR
                held = sum(job.share * within(span, start, end) for job in ours for span in job.holds)
                there = [1 - (within(one.down, start, end) if one.down else 0) for one in cluster.devices]
                waited = [(job, within(span, start, end)) for job in ours for span in job.waits]
                assert row["hours"] == 1
                assert row["allocated"] == pytest.approx(held), (cluster.name, start)
                assert row["available"] == pytest.approx(sum(there))
                assert row["waiting"] == pytest.approx(sum(job.gpus * part for job, part in waited if job.gpus))
                assert row["waiting_unsized"] == pytest.approx(sum(part for job, part in waited if job.gpus is None))


def test_demand_of_one_pool_has_no_job_that_was_never_placed(books: Store, drawn: Sequence[Cluster]) -> None:
    for cluster in drawn:
        of_pools = [
            demand(asking(books, Period(*PERIOD), clusters=[cluster.name], pools=[pool])) for pool in ("train", "dev")
        ]
        placed = [job for job in cluster.jobs if job.holds and job.holds[0][0] < PERIOD[1]]
        hours = sum(job.gpus * within(span, *PERIOD) for job in placed for span in job.waits if job.gpus)
        assert sum(row["waiting"] for rows in of_pools for row in rows) == pytest.approx(hours)
        everywhere = demand(asking(books, Period(*PERIOD), clusters=[cluster.name]))
        for name in ("allocated", "available"):
            assert sum(row[name] for rows in of_pools for row in rows) == pytest.approx(
                sum(row[name] for row in everywhere)
            )


def test_waits_by_what_was_free_are_what_is_reckoned_by_hand(books: Store, drawn: Sequence[Cluster]) -> None:
    counted = 0
    for cluster in drawn:
        found = capacity(asking(books, Period(*PERIOD), clusters=[cluster.name]))
        began = [job for job in cluster.jobs if job.holds and PERIOD[0] <= job.holds[0][0] < PERIOD[1]]
        known = [job for job in began if job.submitted and PERIOD[0] <= job.submitted]
        unknown = [job for job in began if job.submitted is None]
        assert found.total == reckoned(known, len(unknown))
        by_band: dict[int, list[Drawn]] = {}
        for job in known:
            by_band.setdefault(band(cluster, job), []).append(job)
        assert {number: replace(one, unsubmitted=0) for number, one in found.by_free.items() if one.jobs} == {
            number: reckoned(jobs) for number, jobs in by_band.items()
        }
        sizes = [line.gpus for line in found.groups]
        assert sizes == sorted(sizes, reverse=True)  # type: ignore[type-var]
        for line in found.groups:
            ours = [job for job in known if kind(job) == (line.pool, line.model)]
            none = [job for job in unknown if kind(job) == (line.pool, line.model)]
            assert line.waits == reckoned(ours, len(none))
            devices = [one for one in cluster.devices if (one.pool, one.model) == (line.pool, line.model)]
            assert line.gpus == len(devices)
            free = [free_part(cluster, devices, PERIOD[0] + number * HOUR) for number in range(24)]
            assert line.full_hours == sum(part < 0.05 - 1e-12 for part in free if part is not None)
        counted += len(known)
    assert counted > 10


def reckoned(jobs: Sequence[Drawn], unsubmitted: int = 0) -> Any:
    waits = sorted((job.holds[0][0] - job.submitted).total_seconds() for job in jobs if job.submitted)
    hours = sum(job.share * (job.holds[0][0] - job.submitted) / HOUR for job in jobs if job.submitted)
    quantiles = [waits[int(level * len(waits))] if waits else None for level in (0.5, 0.95)]
    return Waits(
        len(waits), sum(wait >= 60 for wait in waits), quantiles[0], quantiles[1], pytest.approx(hours), unsubmitted
    )


def free_part(cluster: Cluster, devices: Sequence[Device], hour: datetime) -> float | None:
    there = sum(1 - (within(one.down, hour, hour + HOUR) if one.down else 0) for one in devices)
    names = {one.name for one in devices}
    held = sum(
        units / device.units * within(span, hour, hour + HOUR)
        for job in cluster.jobs
        for device, units in job.places
        if device.name in names
        for span in job.holds
    )
    return (there - held) / there if there > 1e-9 else None


def band(cluster: Cluster, job: Drawn) -> int:
    assert job.submitted is not None
    pool, model = kind(job)
    devices = [one for one in cluster.devices if (one.pool, one.model) == (pool, model)]
    part = free_part(cluster, devices, job.submitted.replace(minute=0, second=0, microsecond=0))
    return sum((part or 0) >= first - 1e-12 for first in (0.05, 0.1, 0.2, 0.4))


def test_a_workload_has_each_job_as_it_was_drawn_or_counts_why_not(books: Store, drawn: Sequence[Cluster]) -> None:
    found = read_workloads(books, *PERIOD, UNTIL)
    seen = 0
    for cluster in drawn:
        ours = [one for one in found if one.group.cluster == cluster.name]
        assert sum(len(one.devices) + one.mig_devices for one in ours) == len(cluster.devices)
        held = [job for job in cluster.jobs if job.holds and job.holds[0][0] < PERIOD[1]]
        reasons = Counter(why_not(cluster, job) for job in held if why_not(cluster, job) and last(job) > PERIOD[0])
        assert sum((Counter(one.left_out) for one in ours), Counter()) == reasons
        kept = {f"{cluster.name}/{job.name}": job for job in held if not why_not(cluster, job)}
        jobs = {job.job_id: job for one in ours for job in one.jobs}
        assert jobs.keys() == kept.keys()
        for name, job in kept.items():
            as_read = jobs[name]
            assert as_read.started_at == job.holds[0][0].timestamp()
            assert as_read.submitted_at == (job.submitted or job.holds[0][0]).timestamp()
            assert as_read.run_seconds == pytest.approx(sum((b - a).total_seconds() for a, b in job.holds), abs=0.002)
            assert as_read.gpus == pytest.approx(job.share)
            assert as_read.priority == (job.priority or 0)
            assert as_read.measured == (job.submitted is not None and PERIOD[0] <= job.submitted < PERIOD[1])
            per_node = Counter(device.node for device, _ in job.places)
            assert all(count % as_read.devices == 0 for count in per_node.values())
            seen += 1
        named: Counter[str] = Counter()
        for job in kept.values():
            first = job.submitted
            if first and PERIOD[0] <= first < PERIOD[1] and job.holds[0][0] - first >= timedelta(minutes=1):
                named[job.reason] += 1
        assert sum((Counter(one.reasons) for one in ours), Counter()) == Counter(
            {reason: count for reason, count in named.items() if reason}
        )
        plain = [one for one in cluster.devices if one.name not in mig_of(cluster)]
        assert sum(one.down_hours for one in ours) == pytest.approx(
            sum(within(one.down, *PERIOD) for one in plain if one.down)
        )
        assert sum(one.partly for one in ours) == 0
        for one in ours:
            assert [job.submitted_at for job in one.jobs] == sorted(job.submitted_at for job in one.jobs)
            waits = [job for job in cluster.jobs if not job.holds and job.submitted and not job.rejected]
            inside = [job for job in waits if PERIOD[0] <= job.submitted < PERIOD[1]]  # type: ignore[operator]
            gone = [job for job in inside if job.over and job.waits[0][1] < PERIOD[1]]
            late = [
                job for job in cluster.jobs
                if job.holds and job.submitted and job.submitted >= PERIOD[0] and job.submitted < PERIOD[1]
                and job.holds[0][0] >= PERIOD[1]
            ]  # fmt: skip
            assert (one.waiting, one.gone) == (len(inside) - len(gone) + len(late), len(gone))
    assert seen > 30


def last(job: Drawn) -> datetime:
    return job.holds[-1][1]


def mig_of(cluster: Cluster) -> set[str]:
    """Devices of which an instance was held before the period's end."""
    return {
        device.name
        for job in cluster.jobs
        for device, _ in job.places
        if device.mig and any(within(span, BOOKS, PERIOD[1]) for span in job.holds)
    }


def why_not(cluster: Cluster, job: Drawn) -> str:
    groups = {(device.pool, device.model, device.units) for device, _ in job.places}
    if len(groups) > 1:
        return "several"
    if any(device.name in mig_of(cluster) for device, _ in job.places):
        return "mig"
    return "uneven" if len({units for _, units in job.places}) > 1 else ""


def test_what_really_was_is_the_waits_of_the_page(books: Store, drawn: Sequence[Cluster]) -> None:
    """Of groups of which nothing is left out: two ways to the same figures."""
    alike = 0
    for work in read_workloads(books, *PERIOD, UNTIL):
        ask = asking(books, Period(*PERIOD), clusters=[work.group.cluster])
        (line,) = [one for one in capacity(ask).groups if (one.pool, one.model) == work.group[1:]]
        if work.left_out or not work.devices:
            continue
        was = as_it_was(work)
        assert (was.jobs, was.waited) == (line.waits.jobs, line.waits.waited)
        assert was.p50 == pytest.approx(line.waits.median_seconds)
        assert was.p95 == pytest.approx(line.waits.p95_seconds)
        assert was.waited_gpu_hours == pytest.approx(line.waits.waited_gpu_hours)
        alike += was.jobs
    if not alike:
        pytest.skip("of each group that was drawn something is left out")


def test_who_sees_some_tenants_sees_their_demand_and_nothing_that_is_free(
    books: Store, drawn: Sequence[Cluster]
) -> None:
    vision = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
    with Stores(books).scoped_to(vision) as store:
        ask = asking(store, Period(*PERIOD))
        rows, found = demand(ask), capacity(ask)
    ours = [job for cluster in drawn for job in cluster.jobs if job.tenant == "vision"]
    for row in rows:
        held = sum(job.share * within(span, row["step"], row["step"] + HOUR) for job in ours for span in job.holds)
        assert (row["allocated"], row["available"]) == (pytest.approx(held), None)
    assert found.by_free == {}
    assert {(one.gpus, one.least_free, one.allocated) for one in found.groups} <= {(None, None, None)}
    assert found.total.jobs == sum(
        bool(job.holds and job.submitted and PERIOD[0] <= job.submitted and job.holds[0][0] < PERIOD[1]) for job in ours
    )


def test_a_question_names_its_gpus_and_what_they_cost_a_month(books: Store) -> None:
    period = Period(*PERIOD)
    some = next(one for one in workloads_of(books, period) if one.group.model == "H100")
    asked = what_if(books, period, some.group, Change(2))
    outcomes = (as_it_was(asked.workload), *(simulated(asked.workload, one) for one in (Change(), asked.change)))
    document = simulation_document(asked, outcomes)
    assert document.list_price == 2  # the list price, not vision's own
    assert document.as_it_was.month_cost == 1461 * len(some.devices)  # 730.5 hours x 2.00
    assert document.changed.month_cost == 1461 * (len(some.devices) + 2)
    assert (document.cut, document.jobs_simulated) == (False, len(some.jobs))
    few = what_if(books, period, some.group, Change(), most=2)
    assert few.simulated == min(2, len(some.jobs)) and few.is_cut == (few.workload.start > some.start)
    if few.is_cut:
        said = notes(simulation_document(few, outcomes))[0]
        assert said.startswith("simulated: the period from 2026-10-0") and "Z on alone, 2 jobs: at most 62 days" in said
    for group, change, said in (
        (Group("", "", "H200"), Change(), "no such GPUs"),
        (Group("", "", ""), Change(), "kinds of GPUs"),
        (some.group, Change(-len(some.devices)), "leaves none"),
        (some.group, Change(0, 17), "Choose between 1"),
    ):
        with pytest.raises(LedgerError, match=said):
            what_if(books, period, group, change)
    with pytest.raises(LedgerError, match="no closed hours"):
        what_if(books, Period(UNTIL + 90 * 24 * HOUR, UNTIL + 91 * 24 * HOUR), some.group, Change())


def test_gpus_without_a_price_cost_nobody_knows_what() -> None:
    assert Priced(None, "EUR").month(8) is None


def test_another_process_answers_what_this_one_would(books: Store) -> None:
    work = max(workloads_of(books, Period(*PERIOD)), key=lambda one: len(one.jobs))
    changes = (Change(), Change(1, 2))
    found = Simulations().submit(work, changes).result(60)
    assert found == (as_it_was(work), *(simulated(work, one) for one in changes))


def test_a_simulation_that_takes_too_long_or_cannot_be_says_so(books: Store) -> None:
    work = workloads_of(books, Period(*PERIOD))[0]
    with pytest.raises(LedgerError, match=r"takes more than 0\.01 s"):
        Simulations(0.01).submit(work, [Change()]).result(60)
    with pytest.raises(LedgerError, match="make 0"):
        Simulations().submit(work, [Change(-len(work.devices))]).result(60)


@seldom(8, "a simulation is ended by its CPU time")
def test_a_simulation_that_computes_for_too_long_is_ended() -> None:
    jobs = [BookJob(f"j{number}", number * 1.0, 0.0, 9e4 + number, devices=1 + number % 8) for number in range(6000)]
    work = Workload(Group("", "", ""), 0.0, 1e5, [Slot(f"n{number // 8}") for number in range(800)], jobs)
    with pytest.raises(LedgerError, match=r"takes more than 1 s"):
        Simulations(1).submit(work, [Change()]).result(60)


def test_more_than_a_few_do_not_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from scheduler.simulate.books import apart

    going = threading.Event()
    monkeypatch.setattr(apart, "ask", lambda *_: going.wait(120))
    many = Simulations()
    work = Workload(Group("", "", ""), 0.0, 1.0, (), ())
    waiting = [many.submit(work, ()) for _ in range(1 + apart.MOST_WAITING)]
    with pytest.raises(LedgerError, match="too many wait"):
        many.submit(work, ())
    going.set()
    assert all(one.result(60) for one in waiting)
    many.submit(work, ()).result(60)


def test_hours_are_cut_where_the_period_is(books: Store, drawn: Sequence[Cluster]) -> None:
    """A zone of half hours: its days begin and end in the middle of an hour of the books."""
    half = timedelta(minutes=30)
    period = Period(PERIOD[0] + half, PERIOD[1] - half)
    rows = demand(asking(books, period, clusters=[drawn[0].name]))
    assert [row["hours"] for row in rows] == [0.5, *[1] * 22, 0.5]
    first = rows[0]
    waits = [job.gpus * within(span, period.start, PERIOD[0] + HOUR) for job in drawn[0].jobs if job.gpus
             for span in job.waits]  # fmt: skip
    assert first["waiting"] == pytest.approx(sum(waits) / 0.5)


def test_jobs_after_the_last_closed_hour_and_before_the_first_are_in_no_waits(books: Store) -> None:
    """Of hours that are not closed yet the books know some jobs already; a simulation ends with the closed ones."""
    late = UNTIL + HOUR / 2
    events = ", ".join(
        f"('{at:%Y-%m-%d %H:%M:%S}', 'late', 's', '{name}', '{name}', '{event}', 'guest', 1, 'n', '{device}', {units})"
        for name, device, times in (
            ("early", "d0", (BOOKS - HOUR, BOOKS + HOUR)),
            ("inside", "d1", (BOOKS + HOUR, BOOKS + 2 * HOUR)),
            ("late", "d2", (UNTIL - HOUR, late)),
        )
        for event, at, units in (("submitted", times[0], "NULL"), ("started", times[1], 1))
    )
    books.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        + ", ".join(
            f"('{BOOKS:%Y-%m-%d %H:%M:%S}', 'late', 'n', 'd{n}', '', 'B200', 1, 'train', 'available')" for n in range(3)
        )
    )
    books.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, gpus, node, device_id, "
        f"units) VALUES {events}"
    )
    close(books, until=UNTIL, now=late + HOUR)
    period = Period(BOOKS - 24 * HOUR, UNTIL + 24 * HOUR)
    (work,) = [one for one in workloads_of(books, period) if one.group.cluster == "late"]
    found = capacity(asking(books, period, clusters=["late"])).total
    assert (found.jobs, as_it_was(work).jobs) == (1, 1)
