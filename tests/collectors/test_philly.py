"""Philly: jobs keep their length to the millisecond, nobody overtakes, no GPU is held twice."""

from __future__ import annotations

import gzip
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.traces import philly
from collectors.traces.fifo import Job, place
from collectors.traces.schedule import Schedule
from collectors.traces.telemetry import Telemetry, read_distributions

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"

JOBS = """\
timestamp,duration,num_gpus,cluster
2017-10-09 07:00:00,3600.0,2,vc-a
2017-10-09 07:10:00,1800.5,8,vc-b
2017-10-09 07:11:00,60.0,1,vc-a
2017-10-09 07:12:00,7200.25,10,o'brien
2017-10-09 07:12:00,30.0,1,vc-b
"""
MACHINES = "machineId,number_of_GPUs,single_GPU_mem\nm0,2, 12GB\nm1,8, 24GB\n"
CDFS = """\
cluster,metric,cdf_pct,value
philly,gpu_util_pct,0.0,0.0
philly,gpu_util_pct,25.0,0.0
philly,gpu_util_pct,100.0,100.0
seren,gpu_mem_used_pct,0.0,0.0
seren,gpu_mem_used_pct,100.0,99.0
seren,gpu_power_w,0.0,60.0
seren,gpu_power_w,100.0,400.0
seren,gpu_temp_c,0.0,25.0
seren,gpu_temp_c,100.0,80.0
"""


def written(folder: Path, **files: str) -> list[Path]:
    paths = []
    for name, text in files.items():
        paths.append(folder / f"{name}.csv.gz")
        paths[-1].write_bytes(gzip.compress(text.encode()))
    return paths


def at(schedule: Schedule, row: int) -> tuple[int, float, float]:
    """(GPUs, minutes from 07:00 to the start, minutes to the end) of the job in that row of the file."""
    zero = schedule.allocations[0].submit_ms
    found = schedule.allocations[row - 1]
    assert found.start_ms is not None
    return len(found.devices), (found.start_ms - zero) / 60_000, (found.end_ms - zero) / 60_000


def test_jobs_start_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    schedule = philly.read(*written(tmp_path, jobs=JOBS, machines=MACHINES))
    assert at(schedule, 1) == (2, 0, 60)  # fills m0
    assert at(schedule, 2)[:2] == (8, 10)  # fills m1
    assert at(schedule, 3)[1] == pytest.approx(10 + 1800.5 / 60)  # waits for m1 to end
    assert at(schedule, 4)[:2] == (10, 60)  # waits for everything
    assert at(schedule, 5)[1] == at(schedule, 4)[2]  # one GPU would do, but nobody overtakes


def test_events_are_one_row_a_device_and_a_terminal_row_without(tmp_path: Path) -> None:
    (devices, events) = [table for _, table in philly.replay(*written(tmp_path, jobs=JOBS, machines=MACHINES))]
    rows = events.to_pylist()
    assert [(str(r["ts"]), r["state"]) for r in devices.to_pylist() if r["device_id"] == "philly/m0/0"] == [
        ("2017-10-09 06:00:00+00:00", "available"),
        ("2017-10-09 11:00:00+00:00", "removed"),
    ]
    assert {row["model"] for row in devices.to_pylist()} == {"NVIDIA 12GB (Philly)", "NVIDIA 24GB (Philly)"}
    assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)
    of_first = [
        (r["event"], r["node"], r["device_id"], r["units"]) for r in rows if r["allocation_id"] == "philly-000001"
    ]
    assert of_first == [
        ("submitted", "", "", None),
        ("started", "m0", "philly/m0/0", 1),
        ("started", "m0", "philly/m0/1", 1),
        ("finished", "", "", None),
    ]


@pytest.mark.parametrize(
    ("jobs", "machines", "says"),
    [
        ("timestamp,duration\n", MACHINES, "no column num_gpus, cluster"),
        (JOBS.replace("1800.5", "-3"), MACHINES, "row 2: duration is '-3'"),
        (JOBS.replace("1800.5", "0.0001"), MACHINES, "whole milliseconds"),
        (JOBS.replace(",8,", ",800,"), MACHINES, "asks for 800 GPUs"),
        (JOBS, MACHINES.replace("m0,2", "m0,two"), "number_of_GPUs is 'two'"),
        (JOBS, MACHINES.replace("m1,8", "m0,8").split("m0")[0], "has a header and no rows"),
    ],
)
def test_bad_files_say_where_and_what(tmp_path: Path, jobs: str, machines: str, says: str) -> None:
    with pytest.raises(CollectorError, match=says):
        philly.read(*written(tmp_path, jobs=jobs, machines=machines))


def test_missing_and_broken_files_say_so(tmp_path: Path) -> None:
    jobs, machines = written(tmp_path, jobs=JOBS, machines=MACHINES)
    with pytest.raises(CollectorError, match="no such file"):
        philly.read(tmp_path / "nope.csv", machines)
    whole = jobs.read_bytes()
    for broken, says in (
        (whole[:40], "Compressed file ended before"),
        (whole[:12] + b"\xff" * 30, "invalid"),
        (whole + b"more", "it goes on after the end of its gzip data"),
    ):
        jobs.write_bytes(broken)
        with pytest.raises(CollectorError, match=f"cannot be read .*{says}"):
            philly.read(jobs, machines)


LISTS = st.lists(st.builds(Job, st.integers(0, 50), st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=40)


@given(LISTS, st.lists(st.integers(1, 8), min_size=1, max_size=6).filter(lambda m: sum(m) >= 12))
def test_no_gpu_is_held_twice_and_no_job_overtakes_another(jobs: list[Job], machines: list[int]) -> None:
    placed = list(place(jobs, machines))
    assert sorted(p.job for p in placed) == list(range(len(jobs)))
    assert [p.start_ms for p in placed] == sorted(p.start_ms for p in placed)
    by_submit = sorted(placed, key=lambda p: (jobs[p.job].submit_ms, p.job))
    assert by_submit == placed
    held: dict[tuple[int, int], int] = {}
    for found in placed:
        job = jobs[found.job]
        assert found.start_ms >= job.submit_ms
        assert found.end_ms - found.start_ms == job.duration_ms
        assert len(set(found.devices)) == job.gpus
        for device in found.devices:
            assert device[1] < machines[device[0]]
            assert held.get(device, 0) <= found.start_ms
            held[device] = found.end_ms


def test_a_job_that_fits_one_machine_takes_the_fullest_that_fits() -> None:
    placed = list(place([Job(0, 10, 1), Job(0, 10, 2), Job(0, 10, 3), Job(0, 10, 5)], [2, 4, 8]))
    assert [sorted({machine for machine, _ in p.devices}) for p in placed] == [[0], [1], [2], [2]]


def test_samples_cover_each_allocation_exactly_once(tmp_path: Path) -> None:
    jobs, machines, cdfs = written(tmp_path, jobs=JOBS, machines=MACHINES, cdfs=CDFS)
    schedule = philly.read(jobs, machines)
    telemetry = Telemetry(read_distributions(cdfs), utilization_of="philly", interval_seconds=600)
    tables = [table for _, table in telemetry.samples(schedule)]
    rows = [row for table in tables for row in table.to_pylist()]
    assert len(rows) == telemetry.rows(schedule)
    covered: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        covered[row["workload_id"], row["device_id"]] += row["interval_seconds"]
        assert row["utilization_source"] == "acme-2023-cdf:philly/gpu_util_pct"
        assert row["state"] == ("ok" if row["utilization"] else "idle")
    expected = {
        (a.allocation_id, schedule.devices[d].device_id): (a.end_ms - (a.start_ms or 0)) / 1000
        for a in schedule.allocations
        for d in a.devices
    }
    assert covered == pytest.approx(expected)
    assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)
    again = [table for _, table in telemetry.samples(schedule)]
    assert all(one.equals(other) for one, other in zip(tables, again, strict=True))


def test_a_missing_distribution_is_named(tmp_path: Path) -> None:
    jobs, machines, cdfs = written(tmp_path, jobs=JOBS, machines=MACHINES, cdfs=CDFS)
    telemetry = Telemetry(read_distributions(cdfs), utilization_of="kalos")
    with pytest.raises(CollectorError, match="no distribution kalos/gpu_util_pct"):
        list(telemetry.samples(philly.read(jobs, machines)))


def test_the_real_trace_keeps_every_tenants_gpu_hours() -> None:
    jobs, machines = SHARED / "philly_2017_passed_jobs_82k.csv.gz", SHARED / "philly_2017_machines.csv.gz"
    if not jobs.exists():
        pytest.skip("the Philly trace is not beside this checkout (../shared/traces)")
    schedule = philly.read(jobs, machines)
    assert len(schedule.started) == 82_247
    assert len(schedule.devices) == 2_490
    held: dict[str, Decimal] = defaultdict(Decimal)
    for found in schedule.started:
        assert found.start_ms is not None
        held[found.tenant] += Decimal(found.end_ms - found.start_ms) / 1000 * len(found.devices)
    asked: dict[str, Decimal] = defaultdict(Decimal)
    for line in gzip.decompress(jobs.read_bytes()).decode().splitlines()[1:]:
        _, duration, gpus, tenant = line.split(",")
        asked[tenant] += Decimal(duration) * int(gpus)
    assert held == asked
    assert len(held) == 15
