"""Slurm stamps whole seconds, and often nobody knows which devices a job had: it is billed all the same.

Nodes live at random, to the millisecond; sacct's text is made of their seconds. A job that is requeued or preempted may
be stamped a second after its GPUs were given to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from random import Random

from billing.close import close
from billing.close.resolve import FOREVER, Claim, DeviceState, resolve
from billing.verify import verify
from collectors.slurm import sacct
from collectors.slurm.inventory import GresDevice
from collectors.slurm.jobs import Site
from collectors.slurm.rows import lifecycle_rows, placement_rows
from collectors.slurm.tres import Gres
from tests.collectors.slurm.test_books import put
from tests.draws import drawn_seed
from warehouse.records import DEVICES, EVENTS
from warehouse.store import Store

SEED = str(drawn_seed(__name__))
BEGUN = datetime(2026, 10, 1, 10, tzinfo=UTC)
SITE = Site(cluster="alpha")
NODES, GPUS, JOBS = 5, 4, 12
LOST = 1_000_000
"""The number of the first claim that lost its end, above those of every run."""
INVENTORY = {(f"n{node}", index): GresDevice(f"n{node}/{index}") for node in range(NODES) for index in range(GPUS)}
A_MILLISECOND_OR_TWO = Fraction(1, 20)
"""A start again is told one later than the end before it."""


@dataclass(frozen=True)
class Run:
    """A job's, stamped in seconds since BEGUN.   known: whether the controller was asked for its devices in time.
    waited: whether it was submitted in a second before that of its start."""

    job: int
    node: int
    indices: tuple[int, ...]
    start: int
    end: int
    state: str
    known: bool
    waited: bool = True

    @property
    def seconds(self) -> range:
        return range(self.start, self.end)


def lives(draw: Random, node: int) -> list[Run]:
    """A device goes to the next job in the millisecond in which it is free, or later."""
    free_ms = dict.fromkeys(range(GPUS), 0)
    runs = []
    for number in range(JOBS):
        indices = tuple(sorted(draw.sample(range(GPUS), draw.choice((1, 1, 2, 3, GPUS)))))
        start_ms = max(free_ms[index] for index in indices) + draw.choice((0, 0, 50, 1700))
        end_ms = start_ms + draw.choice((0, 30, 400, *[draw.randrange(200, 9000)] * 6))
        state = draw.choice(("COMPLETED", "COMPLETED", "REQUEUED", "PREEMPTED"))
        late = draw.choice((0, 1)) if state in ("REQUEUED", "PREEMPTED") else 0
        free_ms |= dict.fromkeys(indices, end_ms)
        start, end = start_ms // 1000, end_ms // 1000 + late
        runs.append(
            Run(100 * node + number, node, indices, start, end, state, draw.random() < 0.5, draw.random() < 0.5)
        )
    return runs


def text(runs: list[Run]) -> str:
    def stamp(second: int) -> str:
        return (BEGUN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")

    return "JobID|JobIDRaw|State|Submit|Start|End|NodeList|AllocTRES|Account\n" + "".join(
        f"{run.job}|{run.job}|{run.state}|{stamp(0 if run.waited else run.start)}|{stamp(run.start)}|{stamp(run.end)}"
        f"|n{run.node}|gres/gpu={len(run.indices)}|chem\n"
        for run in runs
    )


def held_each_second(runs: list[Run]) -> tuple[Fraction, set[int]]:
    """GPU-seconds that a node can have been held for, by the stamps; the runs that share a second with too many."""
    total, crowded = Fraction(), set()
    for second in sorted({second for run in runs for second in run.seconds}):
        now = [run for run in runs if second in run.seconds]
        named: dict[int, list[Run]] = defaultdict(list)
        for run in now:
            for index in run.indices if run.known else ():
                named[index].append(run)
        unnamed = sum(len(run.indices) for run in now if not run.known)
        total += len(named) + min(unnamed, GPUS - len(named))
        crowded |= {run.job for holders in named.values() if len(holders) > 1 for run in holders}
        if len(named) + unnamed > GPUS:
            crowded |= {run.job for run in now}
    return total, crowded


def test_each_second_is_held_whoever_knows_the_devices() -> None:
    print(f"GPULEDGER_SEED={SEED}")
    draw = Random(SEED)
    states = [DeviceState("c", f"d{index}", "n", 1, 0, FOREVER) for index in range(GPUS)]
    for _ in range(200):
        runs = lives(draw, 0)
        of_some_length = [claim for run in runs if run.seconds for claim in claims(run)]
        resolution = resolve(of_some_length, states, lambda *_: None, {})
        held: dict[int, Fraction] = defaultdict(Fraction)
        for kept in resolution.kept:
            held[int(kept.allocation_id)] += Fraction(kept.end_ms - kept.start_ms, 1000)
        compare(runs, held, Fraction())
        assert all(refused.claim.end_ms - refused.claim.start_ms <= 1000 for refused in resolution.refused)


def test_no_second_is_lost_without_a_refusal_beside_one_that_lost_its_end() -> None:
    """Only where another began or ended in the same second may both have it stamped, and one go without."""
    print(f"GPULEDGER_SEED={SEED}")
    draw = Random(SEED)
    states = [DeviceState("c", f"d{index}", "n", 1, 0, FOREVER) for index in range(GPUS)]
    refused_seconds = 0
    for _ in range(200):
        runs = [replace(run, known=False) for run in lives(draw, 0) if run.seconds]
        lost = [
            Claim(LOST + index, "c", f"lost{index}", "lost", "t", "n", f"d{index}", "", 0, 1.0, 1000 * since, FOREVER)
            for index, since in enumerate(draw.sample(range(20), draw.randrange(1, GPUS)))
        ]
        resolution = resolve([*lost, *(claim for run in runs for claim in claims(run))], states, lambda *_: None, {})
        for run in runs:
            for second in run.seconds:
                got = covering(resolution.kept, run, second)
                refused = sum(
                    int(one.detail.split(" for ")[1].split()[0]) * covering([one.claim], run, second)
                    for one in resolution.refused
                )
                neighbours = [
                    len(other.indices)
                    for other in runs
                    if other.job != run.job and (other.start == second or other.end == second + 1)
                ]
                taken = sum(claim.start_ms == 1000 * second for claim in lost)
                without = len(run.indices) - got - refused
                assert 0 <= without <= sum(neighbours) + taken, (run, second, got, refused)
                refused_seconds += refused
    assert refused_seconds


def covering(some: list[Claim], run: Run, second: int) -> int:
    """How many of these are the run's and hold something throughout a second."""
    begin = 1000 * second
    return sum(
        one.allocation_id == str(run.job) and one.start_ms <= begin and one.end_ms >= begin + 1000 for one in some
    )


def claims(run: Run) -> list[Claim]:
    devices = [(f"d{index}", 1.0) for index in run.indices] if run.known else [("", float(len(run.indices)))]
    return [
        Claim(number, "c", str(run.job), str(run.job), "t", "n", device, "", 0, gpus, 1000 * run.start, 1000 * run.end)
        for number, (device, gpus) in enumerate(devices, 100 * run.job)
    ]


def compare(runs: list[Run], held: Mapping[int, Fraction], tolerance: Fraction) -> None:
    """What each held, in GPU-seconds, with what the stamps of a node's runs say."""
    possible, crowded = held_each_second(runs)
    for run in runs:
        if run.job not in crowded:
            found = held.get(run.job, Fraction())
            assert abs(found - len(run.indices) * len(run.seconds)) <= tolerance, (run, found)
    assert abs(sum(held.get(run.job, 0) for run in runs) - possible) <= tolerance, runs


def test_each_second_is_billed_whoever_knows_the_devices(store: Store) -> None:
    print(f"GPULEDGER_SEED={SEED}")
    draw = Random(SEED)
    runs = {node: lives(draw, node) for node in range(NODES)}
    put(
        store,
        DEVICES,
        [
            {
                "ts": BEGUN,
                "cluster": "alpha",
                "node": node,
                "device_id": place.device_id,
                "model": "H100",
                "state": "available",
            }
            for (node, _), place in INVENTORY.items()
        ],
    )
    reported = sacct.read(text([run for of_node in runs.values() for run in of_node]), SITE)
    by_job = {run.job: run for of_node in runs.values() for run in of_node}
    jobs = [
        replace(job, placed={job.nodes[0]: (Gres("gpu", "", len(run.indices), run.indices),)} if run.known else {})
        for job in reported.records
        for run in [by_job[int(job.job_id)]]
    ]
    events = lifecycle_rows(reported.records, SITE, BEGUN).rows["events"]
    put(store, EVENTS, events + placement_rows(jobs, SITE, INVENTORY, BEGUN).rows["events"])
    close(store, BEGUN + timedelta(hours=1))
    billed = {
        int(row["allocation_id"]): Fraction(row["ms"], 1000)
        for row in store.rows(
            "SELECT allocation_id, toInt64(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms)) AS ms"
            " FROM ledger WHERE allocation_id != '' GROUP BY allocation_id"
        )
    }
    momentary = {run.job for run in by_job.values() if not run.seconds}
    assert not momentary & billed.keys()
    seen = {int(row["job"]) for row in store.rows("SELECT DISTINCT workload_id AS job FROM events")}
    assert momentary <= seen
    for of_node in runs.values():
        compare(of_node, billed, A_MILLISECOND_OR_TWO)
    assert store.rows("SELECT * FROM refused_claims WHERE end_at > start_at + 1") == []
    assert verify(store).balanced
