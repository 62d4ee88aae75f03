"""The published fragmentation experiment, on the scheduler's own placement: equal cell by cell.

`GPULEDGER_FRAGMENTATION=full` runs every workload, policy and seed of the published tables; otherwise a small part.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import get_args

import pytest

from collectors.errors import CollectorError
from scheduler.simulate.fragmentation_experiment import COLUMNS, Metric, Run, run
from scheduler.simulate.published import Workload, read_workload
from tests.draws import seldom

DATA = Path(__file__).resolve().parents[3] / "shared" / "openb-fgd"
FILES = {"allocated": "allo", "frag_ratio": "frag_ratio"}
NAMES = {
    "random": "01-Random",
    "dotprod": "02-DotProd",
    "gpuclustering": "03-GpuClustering",
    "gpupacking": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
TOLERANCE = 0.005
FULL = os.environ.get("GPULEDGER_FRAGMENTATION") == "full"

Row = list[float]


@pytest.fixture
def data() -> Path:
    if not (DATA / "expected").exists():
        pytest.skip(f"the published experiment is not at {DATA}")
    return DATA


@cache
def published(metric: Metric) -> dict[tuple[str, str, int], Row]:
    """By workload, policy and seed: the value of each column."""
    with gzip.open(DATA / "expected" / f"{FILES[metric]}.csv.gz", "rt") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), row["sc_policy"], int(row["seed"])): [
                float(row[str(column)]) for column in COLUMNS
            ]
            for row in csv.DictReader(file)
        }


@cache
def workload(name: str) -> Workload:
    return read_workload(DATA, name)


def largest_difference(done: Run, metric: Metric) -> float:
    expected = published(metric)[done.workload, NAMES[done.policy], done.seed]
    found = done.row(metric)
    assert None not in found
    return max(abs(value - other) for value, other in zip(found, expected, strict=True) if value is not None)


@seldom(5, "a seed of the published experiment")
@pytest.mark.parametrize("policy", ["fgd", "bestfit"])
def test_a_seed_of_the_default_workload_equals_the_published_rows(data: Path, policy: str) -> None:
    done = run(workload("default"), policy, 42)
    assert {metric: largest_difference(done, metric) for metric in get_args(Metric)} == pytest.approx(
        {"allocated": 0, "frag_ratio": 0}, abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="GPULEDGER_FRAGMENTATION=full runs all of it, for an hour")
@pytest.mark.parametrize("policy", [name for name in NAMES if name != "random"])
def test_every_published_cell_is_equal(data: Path, policy: str) -> None:
    for name, published_policy, seed in published("allocated"):
        if published_policy == NAMES[policy]:
            done = run(workload(name), policy, seed)
            for metric in get_args(Metric):
                assert largest_difference(done, metric) <= TOLERANCE, (name, seed, metric)


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="GPULEDGER_FRAGMENTATION=full runs all of it, for an hour")
def test_random_placement_is_within_three_deviations_of_the_published_mean(data: Path) -> None:
    seeds: dict[str, list[int]] = defaultdict(list)
    for name, policy, seed in published("allocated"):
        if policy == NAMES["random"]:
            seeds[name].append(seed)
    for name, of in seeds.items():
        runs = [run(workload(name), "random", seed) for seed in of]
        for metric in get_args(Metric):
            rows = [published(metric)[name, NAMES["random"], seed] for seed in of]
            for column in COLUMNS:
                values = [row[column] for row in rows]
                mean = fmean(value for done in runs if (value := done.row(metric)[column]) is not None)
                assert abs(mean - fmean(values)) <= 3 * stdev(values) + TOLERANCE, (name, metric, column)


SMALL = {
    "csv/openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1024,1,T4\nn2,8000,1024,1,P100\n",
    "csv/openb_pod_list_tiny.csv": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        "p1,1000,10,1,600,\np2,1000,10,1,600,P100\np3,1000,10,1,400,\np4,500,10,0,0,\n"
    ),
    "event_order/tiny_pods.csv": "seed,seq,name\n7,0,p1\n7,1,p2\n7,2,p2\n7,3,p3\n7,4,p3\n7,5,p4\n",
    "event_order/tiny_nodes.csv": "seed,rank,sn\n7,1,n1\n7,0,n2\n",
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_first_node_of_the_order_wins_ties_and_what_fails_has_still_arrived(tiny: Path) -> None:
    done = run(read_workload(tiny, "tiny"), "bestfit", 7)
    assert [(point.arrived, point.allocated) for point in done.points] == [
        (600, 600),  # p1 on n2, which is first in the order though second in the list
        (1200, 600),  # p2 needs a P100, of which 400 are left
        (1800, 600),
        (2200, 1000),  # p3 fills n2
        (2600, 1400),
        (2600, 1400),  # p4 asks for no GPU
    ]
    row = done.row("allocated")
    assert {column: value for column, value in enumerate(row) if value is not None} == {
        29: 30.0, 30: 30.0, 31: 30.0, 59: 30.0, 60: 30.0, 61: 30.0, 89: 30.0, 90: 30.0, 91: 30.0,
        109: 50.0, 110: 50.0, 111: 50.0, 129: 70.0, 130: 70.0,
    }  # fmt: skip


def test_moves_place_what_did_not_fit(tiny: Path) -> None:
    """p1 leaves the only P100 for the idle T4, so that p2 fits; then no 600 is left anywhere."""
    done = run(read_workload(tiny, "tiny"), "bestfit", 7, most_moves=2)
    assert [point.allocated for point in done.points] == [600, 1200, 1200, 1600, 2000, 2000]
    assert (done.moves, done.failed) == (1, 1)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("event_order/tiny_pods.csv", "seed,seq,name\n7,0,p9\n", "row 1: name 'p9' is not in the list"),
        ("event_order/tiny_nodes.csv", "seed,rank,sn\n7,0,x\n", "row 1: sn 'x' is not in the list"),
        ("csv/openb_pod_list_tiny.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1500\n", "1 to 1000"),
        ("csv/openb_pod_list_tiny.csv", "name,cpu_milli\np,1\n", "no column memory_mib, num_gpu, gpu_milli"),
    ],
)
def test_a_file_of_no_use_is_named_with_its_row(tiny: Path, name: str, text: str, message: str) -> None:
    (tiny / name).write_text(text)
    with pytest.raises(CollectorError, match=message) as refused:
        read_workload(tiny, "tiny")
    assert Path(name).name in str(refused.value)


def test_a_workload_or_seed_that_is_not_there_names_those_that_are(tiny: Path) -> None:
    with pytest.raises(CollectorError, match=r"openb_pod_list_huge\.csv: no such file.*openb_pod_list_tiny\.csv"):
        read_workload(tiny, "huge")
    with pytest.raises(CollectorError, match=r"has no seed 8\. It has 7"):
        read_workload(tiny, "tiny").seeds([7, 8])
