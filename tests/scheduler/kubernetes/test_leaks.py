"""What operators are known to leak, of amounts that pods ask for: beside a reckoning in exact fractions.

Each is a fault that users of Kueue or KAI reported; those of scheduling are in tests/scheduler/live/test_leaks.py.
"""

from __future__ import annotations

import math
import random
import tempfile
from fractions import Fraction
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.kubernetes import gated_pods
from scheduler.kubernetes.pods import is_over, phase
from tests.scheduler.kubernetes.site import DEVICES, SETTINGS, GatedSite, Site
from tests.scheduler.kubernetes.standin import SPACE, Thing, gated_pod

CPU = 8000
"""Of a node, in thousandths."""

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
}

amounts = st.none() | st.tuples(st.integers(-3, 2000), st.sampled_from(sorted(SUFFIXES)))
"""(number, suffix) of a quantity; negative ones no API server takes, and they are no credit."""


def exact(amount: tuple[int, str] | None) -> Fraction:
    return Fraction(0) if amount is None else max(Fraction(0), amount[0] * SUFFIXES[amount[1]])


def resources(resource: str, amount: tuple[int, str] | None) -> Thing:
    return {} if amount is None else {"requests": {resource: f"{amount[0]}{amount[1]}"}}


@given(
    resource=st.sampled_from(["cpu", "memory"]),
    containers=st.lists(amounts, min_size=1, max_size=3),
    first=st.lists(st.tuples(amounts, st.booleans()), max_size=3),
    overhead=amounts,
    whole=st.none() | amounts,
)
def test_a_pod_asks_for_what_kubernetes_counts_and_for_no_less(
    resource: str,
    containers: list[tuple[int, str] | None],
    first: list[tuple[tuple[int, str] | None, bool]],
    overhead: tuple[int, str] | None,
    whole: tuple[int, str] | None,
) -> None:
    """The least of a CPU is a milli-CPU, of memory a byte; sidecars stay, and what a pod says as a whole counts."""
    pod = gated_pod("one", "u")
    gpus = pod["spec"]["containers"][0]["resources"]
    pod["spec"] |= {
        "containers": [{"name": f"c{n}", "resources": resources(resource, one)} for n, one in enumerate(containers)],
        "initContainers": [
            {"name": f"i{n}", "resources": resources(resource, one)} | ({"restartPolicy": "Always"} if stays else {})
            for n, (one, stays) in enumerate(first)
        ],
        "resources": resources(resource, whole),
        "overhead": resources(resource, overhead).get("requests", {}),
    }
    pod["spec"]["containers"][0]["resources"] |= {"limits": gpus["limits"]}
    stays_before = [sum((exact(one) for one, stays in first[:n] if stays), Fraction(0)) for n in range(len(first) + 1)]
    starting = [stays_before[n] + exact(one) for n, (one, _) in enumerate(first)]
    running = stays_before[-1] + sum(map(exact, containers))
    expected = (max([running, *starting]) if whole is None else exact(whole)) + exact(overhead)
    request = gated_pods.job_of([pod], "chem", "p", False, frozenset({"cpu", "memory"}))["request"]
    found = request["cpu_milli" if resource == "cpu" else "host_memory_bytes"]
    assert found == math.ceil(expected * (1000 if resource == "cpu" else 1))
    assert (found > 0) == (expected > 0)
    assert request["devices"] == 1


def test_a_manifest_that_asks_for_less_than_nothing_is_rejected_and_gives_no_room(tmp_path: Path) -> None:
    """As from an API server without the schema: the job says so, and what others may have stays as it was."""
    site = Site(tmp_path)
    site.create("runs", least=2, gpusPerReplica=4)
    site.create("waits", least=2, gpusPerReplica=4)
    site.settle()
    before = [(line["allocated"], line["available"]) for line in site.service.pools()]
    wrong = [
        site.create("gpus", gpusPerReplica=-4),
        site.create("least", least=-2, most=2),
        site.create("both", least=-2, most=-1),
        site.create("limit", timeLimitSeconds=-60),
        site.create("saves", checkpointSeconds=-1),
    ]
    site.settle()
    for job in wrong:
        assert (job["status"]["state"], job["status"]["reason"]) == ("Rejected", "Misconfigured"), job
    assert [(line["allocated"], line["available"]) for line in site.service.pools()] == before
    states = {job["metadata"]["name"]: job["status"]["state"] for job in site.cluster.jobs()}
    assert (states["runs"], states["waits"]) == ("Starting", "Pending")


def asking(pod: Thing, milli: int) -> Thing:
    """Also once it is there, as by the subresource `resize`: it changes CPU and memory alone."""
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": f"{milli}m"}
    return pod


@given(st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_a_resize_in_place_gives_no_room_takes_none_and_leaves_nothing_behind(seed: int) -> None:
    """A pod counts for what it asked for when it was submitted, until it is over, however it was resized since."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        pools = [{**SETTINGS["pools"][0], "nodes": 1, "cpu_milli": CPU}]
        site = GatedSite(Path(folder), pools=pools, tenants=[])
        counted = dict[str, int]()
        for number in range(15):
            milli = dice.choice([500, 1000, 3000])
            pod = asking(site.submit(f"g{number}", gpus=dice.randint(0, 1)), milli)
            counted[pod["metadata"]["name"]] = milli
            site.settle()
            site.run()
            of = dice.choice(site.cluster.pods())
            site.cluster.put("pods", asking(of, dice.choice([1, 4000, 10**6])), SPACE)
            if dice.random() < 0.3 and (running := [one for one in site.cluster.pods() if phase(one) == "Running"]):
                site.cluster.ends(dice.choice(running), 0)
            site.settle()
            on = [one for one in site.cluster.pods() if not gated_pods.is_gated(one) and not is_over(one)]
            assert sum(counted[one["metadata"]["name"]] for one in on) <= CPU
            waiting = [one for one in site.cluster.pods() if gated_pods.is_waiting(one)]
            assert not waiting or on, "nobody waits for room that nobody has"
        for pod in site.cluster.pods():
            site.cluster.forget(pod["metadata"]["name"])
        site.settle()
        whole = [asking(site.submit(f"whole{number}"), CPU // DEVICES) for number in range(DEVICES)]
        site.settle()
        assert not any(map(gated_pods.is_gated, whole)), "all of the node is free again"
        site.log.close()
