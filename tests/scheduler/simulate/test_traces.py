"""Traces become jobs and nodes, and what had to be assumed is said."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from collectors.errors import CollectorError
from scheduler.simulate.traces import gang, read

PHILLY = """\
timestamp,duration,num_gpus,cluster
2017-10-09 07:10:00,1800.5,12,vc-b
2017-10-09 07:00:00,3600.0,2,vc-a
"""
MACHINES = "machineId,number_of_GPUs,single_GPU_mem\nm0,2, 12GB\nm1,8, 24GB\n"
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,4000,1024,1,460,T4|P100,LS,Running,100,400,160.0
p1,2000,512,0,0,,BE,Running,50,90,60.0
p2,2000,512,1,1000,,BE,Pending,50,90,
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\nn1,32000,1024,0,\n"
JOBS = """\
job_id,submitted_at,run_seconds,gpus,tenant,replicas,max_replicas,limit_seconds,preemptible,model
a,2026-10-01T00:00:00Z,60,2,vision,2,4,90,false,A100|H100
b,1790812801,30,1,,,,,,
z,1790812802,0,1,,,,,,
"""


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_jobs_whose_scaling_policy_is_not_followed_are_named(tmp_path: Path) -> None:
    head = "job_id,submitted_at,run_seconds,gpus,replicas,max_replicas,scaling\n"
    policies = ['"{""queue"": {""grow_below"": 1, ""shrink_at"": 4}}"', "", *["{}"] * 11]
    rows = "".join(f"j{n},{n},60,1,1,4,{policy}\n" for n, policy in enumerate(policies))
    (note,) = [one for one in read(file(tmp_path, "jobs.csv", head + rows)).notes if "scaling" in one]
    assert note.startswith("scaling policies are not simulated: j0, j2, j3,") and " and 2 more may have" in note
    assert not any("scaling" in one for one in read(file(tmp_path, "none.csv", head + "a,0,60,1,1,4,\n")).notes)


def test_philly_jobs_come_in_order_with_gangs_of_equal_parts(tmp_path: Path) -> None:
    machines = str(file(tmp_path, "m.csv.gz", MACHINES))
    trace = read(file(tmp_path, "p.csv.gz", PHILLY), machines, limit_factor=3.0)
    first, second = trace.jobs
    assert (first.job_id, first.tenant, first.min_replicas, first.request.devices) == ("philly-000002", "vc-a", 1, 2)
    assert (second.min_replicas, second.request.devices) == (2, 6)
    assert (second.run_time, second.time_limit) == (1800.5, 5401.5)
    assert [len(node.devices) for node in trace.nodes] == [2, 8]
    assert trace.nodes[0].devices[1].device_id == "philly/m0/1"
    assert any("2 jobs name none and are allowed 3 x" in note for note in trace.notes)


def test_openb_pods_keep_shares_models_and_cpu_and_the_unscheduled_are_counted_out(tmp_path: Path) -> None:
    trace = read(file(tmp_path, "pods.csv", PODS), str(file(tmp_path, "nodes.csv", NODES)))
    cpu_only, shared = trace.jobs
    assert (cpu_only.request.devices, cpu_only.request.cpu_milli, cpu_only.preemptible) == (0, 2000, True)
    assert (shared.request.units, shared.request.models) == (460, {"T4", "P100"})
    assert (shared.run_time, shared.request.host_memory_bytes) == (240.0, 1 << 30)
    (node,) = trace.nodes  # the one that has GPUs
    assert (node.devices[0].units, node.cpu_milli) == (1000, 64000)
    assert any("1 pods that the trace never scheduled" in note for note in trace.notes)


def test_any_list_of_jobs_will_do(tmp_path: Path) -> None:
    trace = read(file(tmp_path, "jobs.csv", JOBS), "3x8:H100")
    a, b = trace.jobs
    assert (a.submitted_at, a.min_replicas, a.max_replicas, a.time_limit) == (1790812800, 2, 4, 90)
    assert (a.preemptible, a.request.models) == (False, {"A100", "H100"})
    assert (b.tenant, b.queue, b.time_limit) == ("everybody", "everybody", 60)
    assert any("1 jobs that ran no time" in note for note in trace.notes)
    assert len(trace.nodes) == 3


def test_without_machines_gangs_fit_on_the_largest_node_that_is_known(tmp_path: Path) -> None:
    jobs = file(tmp_path, "jobs.csv", "job_id,submitted_at,run_seconds,gpus\na,0,1,12\n")
    for largest, parts in ((8, (2, 6)), (16, (1, 12))):
        (job,) = read(jobs, largest=largest).jobs
        assert (job.min_replicas, job.request.devices) == parts


def test_machines_that_are_neither_a_file_nor_so_many_say_both_forms(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submitted_at,run_seconds,gpus\na,0,60,1\n")
    with pytest.raises(CollectorError, match=r"--machines 7xx8: no such file\. .*NODESxGPUS.* 776x8:V100"):
        read(path, "7xx8")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\n", "not a known trace format"),
        ("job_id,submitted_at,run_seconds,gpus\na,soon,1,1\n", "row 1: .*soon"),
        ("job_id,submitted_at,run_seconds,gpus\na,0,1,1\nb,0,-1,1\n", "row 2: .*less than no time"),
        ("job_id,submitted_at,run_seconds,gpus\na,0,1,-1\n", "row 1: gpus is -1"),
        ("job_id,submitted_at,run_seconds,gpus\n", "has a header and no rows"),
    ],
)
def test_what_is_no_trace_is_refused_with_file_and_row(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(CollectorError, match=match):
        read(file(tmp_path, "jobs.csv", text))


@pytest.mark.parametrize(
    ("gpus", "largest", "parts"), [(8, 8, (1, 8)), (16, 8, (2, 8)), (12, 8, (2, 6)), (13, 8, (13, 1)), (1, 8, (1, 1))]
)
def test_a_gang_has_equal_parts_as_large_as_fit(gpus: int, largest: int, parts: tuple[int, int]) -> None:
    assert gang(gpus, largest) == parts
