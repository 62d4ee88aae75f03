"""openb: pods at their own times, fractions best fit, no GPU given away past its thousand thousandths."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.traces import openb
from collectors.traces.fractions import MILLI, NodeGpus, place

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
whole,1,1,1,1000,,LS,Running,0,100,0.0
half,1,1,1,500,,BE,Succeeded,0,100,10.0
third,1,1,1,330,,BE,Failed,5,90,12.0
gang,1,1,2,1000,A10|T4,LS,Running,20,80,21.0
never,1,1,1,1000,,BE,Pending,30,60,
picky,1,1,1,1000,G9,LS,Running,30,60,31.0
cpu,1,1,0,0,,LS,Running,0,100,0.0
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-cpu,1,1,0,\nn-a,1,1,2,T4\nn-b,1,1,2,T4\n"


def schedule(tmp_path: Path, pods: str = PODS, nodes: str = NODES) -> openb.Schedule:
    (tmp_path / "pods.csv").write_text(pods)
    (tmp_path / "nodes.csv").write_text(nodes)
    return openb.read(tmp_path / "pods.csv", tmp_path / "nodes.csv", datetime(2023, 1, 1, tzinfo=UTC))


def test_pods_are_placed_best_fit_at_their_own_times(tmp_path: Path) -> None:
    found = schedule(tmp_path)
    by_name = {allocation.allocation_id: allocation for allocation in found.allocations}
    where = {name: [found.devices[d].device_id for d in a.devices] for name, a in by_name.items()}
    assert where["whole"] == ["openb/n-a/0"]
    assert where["half"] == where["third"] == ["openb/n-a/1"]
    assert where["gang"] == ["openb/n-b/0", "openb/n-b/1"]
    assert (by_name["half"].units, by_name["half"].gpus, by_name["gang"].gpus) == (500, 0.5, 2)
    endings = {name: allocation.ending for name, allocation in by_name.items()}
    assert endings == {
        "whole": "finished",
        "half": "finished",
        "third": "failed",
        "gang": "finished",
        "never": "cancelled",
        "picky": "rejected",
    }
    assert "cpu" not in by_name
    assert by_name["picky"].start_ms is None


def test_bad_pods_are_named_by_row(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="row 2: gpu_milli is 5000"):
        schedule(tmp_path, PODS.replace(",500,", ",5000,"))
    with pytest.raises(CollectorError, match="row 1: pod_phase is 'Odd'"):
        schedule(tmp_path, PODS.replace("Running", "Odd"))
    with pytest.raises(CollectorError, match="no node has a GPU"):
        schedule(tmp_path, nodes="sn,gpu,model\nn,0,\n")


REQUESTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 3), st.integers(1, MILLI)).map(
        lambda t: (t[0], t[0] + t[1], t[2], MILLI if t[2] > 1 else t[3], ())
    ),
    max_size=40,
)


@given(REQUESTS)
def test_no_gpu_is_given_away_past_the_whole(requests: list[tuple[int, int, int, int, tuple[str, ...]]]) -> None:
    placed = place(requests, [NodeGpus("a", 2, "T4"), NodeGpus("b", 4, "T4")])
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (start, end, gpus, milli, _), devices in zip(requests, placed, strict=True):
        assert len(devices) in (0, gpus)
        assert len({device < 2 for device in devices}) <= 1  # one node
        for device in devices:
            changes[device] += [(start, milli), (end, -milli)]
    for moments in changes.values():
        held = 0
        for _, milli in sorted(moments):
            held += milli
            assert held <= MILLI


def test_the_real_trace_places_every_scheduled_pod_on_a_model_that_it_allows() -> None:
    pods, nodes = SHARED / "openb_2023_pods_gpuspec33.csv.gz", SHARED / "openb_2023_nodes.csv.gz"
    if not pods.exists():
        pytest.skip("the openb trace is not beside this checkout (../shared/traces)")
    found = openb.read(pods, nodes)
    assert len(found.devices) == 6_212
    assert len(found.started) == 6_203
    assert sum(allocation.ending == "rejected" for allocation in found.allocations) == 0
