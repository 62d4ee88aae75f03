"""Queues of Kueue and Volcano: a workload without pods waits once, holds nothing, and its wait ends."""

from __future__ import annotations

import copy
import json
import os
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from billing.close import close
from collectors.kubernetes.cluster import Cluster, Stream
from collectors.kubernetes.follow import Changed, Current, Listed, Unserved
from collectors.kubernetes.settings import Settings
from collectors.readings import Collected
from gpuledger.destinations import storing
from tests.collectors.kubernetes.make import (
    admitted,
    bound,
    deleting,
    ended,
    last,
    node,
    pod,
    running,
    second,
    unschedulable,
)
from tests.collectors.kubernetes.make_queues import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    WORKLOADS,
    Object,
    admit,
    cluster_queue,
    evict,
    finish,
    local_queue,
    pending,
    pod_group,
    requeue,
    said,
    volcano_queue,
    workload,
)
from tests.collectors.kubernetes.server import NODES, PODS, serving
from tests.collectors.kubernetes.test_watcher import Watching
from tests.draws import drawn_seed
from warehouse.store import Store

HERE = Settings(cluster="c1", tenant_marks=("team",), queues_of=("kueue", "volcano"))
Row = dict[str, Any]
ENDS = ("preempted", "finished", "failed", "cancelled", "rejected")


class Watch:
    """A cluster as a watch knows it, and all rows so far."""

    def __init__(self, pods: bool = True) -> None:
        self.cluster = Cluster(HERE)
        self.rows: list[Row] = []
        self.findings: list[Row] = []
        self.levels: list[Row] = []
        self.saved: dict[str, dict[str, Any]] = {"pod": {}, "waiting": {}, "node": {}, "wait": {}}
        if pods:
            self.list("pods", [], 0)

    def _take(self, collected: Collected) -> list[Row]:
        found = collected.rows.get("events", [])
        self.rows += found
        self.findings += collected.rows.get("findings", [])
        self.levels += collected.rows.get("service_levels", [])
        for kind, key, plain in self.cluster.changes():
            self.saved[kind].pop(key, None)
            if plain is not None:
                self.saved[kind][key] = json.loads(json.dumps(plain))
        return found

    def put(self, stream: Stream, found: Object, at: float, deleted: bool = False) -> list[Row]:
        return self._take(self.cluster.apply(stream, Changed(found, "7", deleted), second(at)))

    def list(self, stream: Stream, found: list[Object], at: float) -> list[Row]:
        return self._take(self.cluster.apply(stream, Listed(found, "7", True, True), second(at)))

    def restart(self) -> None:
        self.cluster = Cluster(HERE)
        saved = self.saved
        self.cluster.restore("7", second(0), saved["pod"], saved["waiting"], saved["node"], saved["wait"])

    def waiters(self) -> dict[str, Row]:
        """As the view of that name has them: the newest row of what was submitted, and nothing else since."""
        over = {row["allocation_id"] for row in self.rows if row["event"] != "submitted"}
        rows = sorted(self.rows, key=lambda row: row["ts"])
        return {row["allocation_id"]: row for row in rows if row["allocation_id"] not in over}


def brief(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["event"], (row["ts"] - second(0)).total_seconds(), row.get("reason", "")) for row in rows]


def test_a_suspended_job_waits_with_its_reason_and_holds_nothing() -> None:
    watch = Watch()
    watch.list("local_queues", [local_queue()], 0)
    before = workload("w", 10, gpus=4, count=2, labels={"team": "physics"})
    (row,) = watch.put("workloads", before, 10)
    assert row == {
        "ts": second(10), "cluster": "c1", "source": "kubernetes", "workload_id": "w", "allocation_id": "w",
        "event": "submitted", "tenant": "physics", "project": "chem", "queue": "gpus", "priority": 10, "gpus": 8.0,
        "message": "Workload chem/job-train-w of Job/train-w",
    }  # fmt: skip
    (row,) = watch.put("workloads", pending(before, 12), 12)
    assert brief([row]) == [("submitted", 12, "Pending")]
    assert row["message"].startswith("insufficient unused quota")
    rows = watch.put("workloads", admit(pending(before, 12), 100), 100)
    assert brief(rows) == [("started", 100, ""), ("cancelled", 100, "Admitted")]
    assert not any({"node", "device_id", "gpus"} & row.keys() for row in rows)
    assert watch.put("workloads", finish(admit(pending(before, 12), 100), 500), 500) == []
    assert watch.put("workloads", finish(admit(pending(before, 12), 100), 500), 600, deleted=True) == []
    assert watch.saved["wait"] == {}


def test_a_local_queue_may_be_heard_of_after_who_waits_in_it() -> None:
    watch = Watch(pods=False)
    assert watch.list("workloads", [workload("w", 10), workload("v", 10, namespace="bio")], 20) == []
    watch.list("local_queues", [local_queue(), local_queue(cluster_queue="others", namespace="bio")], 21)
    watch.list("pods", [], 22)
    assert {key: row["queue"] for key, row in watch.waiters().items()} == {"w": "gpus", "v": "others"}
    rows = watch.put("local_queues", local_queue(cluster_queue="moved"), 60)
    assert [(row["allocation_id"], row["queue"]) for row in rows] == [("w", "moved")]


def test_an_evicted_workload_waits_again_under_another_allocation() -> None:
    watch = Watch()
    runs = admit(workload("w", 10), 20)
    watch.put("workloads", runs, 20)
    stopped = evict(runs, 50)
    rows = watch.put("workloads", stopped, 50)
    assert brief(rows) == [("submitted", 50, ""), ("submitted", 50.001, "Preempted")]
    assert {row["allocation_id"] for row in rows} == {"w/2026-10-01T08:00:50Z"}
    assert "accommodate" in rows[1]["message"]
    rows = watch.put("workloads", requeue(stopped, 60), 60)
    assert brief(rows) == [("submitted", 60, "Pending")]
    rows = watch.put("workloads", admit(requeue(stopped, 60), 90), 90)
    assert brief(rows) == [("started", 90, ""), ("cancelled", 90, "Admitted")]
    assert watch.waiters() == {}


def test_what_was_evicted_before_anybody_watched_says_nothing_of_when_it_began_to_wait() -> None:
    watch = Watch()
    again = admit(requeue(evict(admit(workload("w", 10), 20), 50), 60), 90)
    assert watch.list("workloads", [again], 100) == []


def test_what_was_done_before_anybody_watched_is_not_reported() -> None:
    watch = Watch()
    done = finish(admit(pending(workload("w", 10), 12), 20), 90)
    assert watch.list("workloads", [done, admit(workload("runs", 15), 20)], 100) == watch.rows
    assert {row["allocation_id"] for row in watch.rows} == {"runs"}


def test_admission_checks_hold_a_workload_back_whose_quota_is_reserved() -> None:
    watch = Watch()
    checked = said(workload("w", 10), "QuotaReserved", "True", 20, "QuotaReserved", "")
    checked["status"]["admissionChecks"] = [{"name": "provision", "state": "Pending", "message": "no capacity"}]
    rows = watch.put("workloads", checked, 20)
    assert brief(rows) == [("submitted", 10, ""), ("submitted", 20, "AdmissionGated")]
    assert rows[1]["message"] == "provision Pending no capacity"


def test_a_message_that_counts_is_not_reported_each_time() -> None:
    watch = Watch()
    before = pending(workload("w", 10), 10, "3 more needed")
    assert brief(watch.put("workloads", before, 11)) == [("submitted", 10, ""), ("submitted", 10.001, "Pending")]
    assert watch.put("workloads", pending(before, 20, "2 more needed"), 20) == []
    rows = watch.put("workloads", pending(before, 20, "1 more needed"), 400)
    assert (brief(rows), rows[0]["message"]) == ([("submitted", 400, "Pending")], "1 more needed")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("deleted", [("cancelled", 40, "Deleted")]),
        ("deactivated", [("cancelled", 35, "Deactivated")]),
        ("finished", [("cancelled", 35, "Succeeded")]),
    ],
)
def test_a_wait_ends_without_a_start(how: str, expected: list[Any]) -> None:
    watch = Watch()
    before = pending(workload("w", 10), 12)
    watch.put("workloads", before, 12)
    if how == "deleted":
        rows = watch.put("workloads", before, 40, deleted=True)
    elif how == "deactivated":
        before["spec"]["active"] = False
        rows = watch.put("workloads", evict(before, 35, "Deactivated"), 36)
    else:
        rows = watch.put("workloads", finish(before, 35), 36)
    assert brief(rows) == expected
    assert watch.waiters() == {}
    if how == "deactivated":  # and activated again
        before["spec"]["active"] = True
        watch.put("workloads", requeue(evict(before, 35, "Deactivated"), 50), 50)
        assert list(watch.waiters()) == ["w/2026-10-01T08:00:35Z"]


def test_gated_pods_wait_in_place_of_their_workload() -> None:
    watch = Watch()
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/pod-group-name": "job-train-w"}
    watch.list("local_queues", [local_queue()], 0)
    gated = pod("p", 9, labels=labels)
    watch.put("pods", gated, 9)
    assert watch.put("workloads", pending(workload("w", 10), 12), 12) == []
    assert {key: row["queue"] for key, row in watch.waiters().items()} == {"p": "gpus"}
    # If the Workload is heard of first, its pods take over.
    watch.put("workloads", pending(workload("v", 10), 12), 12)
    assert set(watch.waiters()) == {"p", "v"}
    rows = watch.put("pods", pod("q", 9, annotations={"kueue.x-k8s.io/workload": "job-train-v"}), 13)
    assert brief(rows) == [("cancelled", 12, "PodsWait"), ("submitted", 9, "")]
    assert set(watch.waiters()) == {"p", "q"}


def test_gated_pods_are_known_after_a_restart() -> None:
    watch = Watch()
    watch.put("pods", pod("p", 9, annotations={"kueue.x-k8s.io/workload": "job-train-w"}), 9)
    watch.restart()
    watch._take(watch.cluster.apply("pods", Current("8"), second(20)))
    assert watch.put("workloads", pending(workload("w", 10), 12), 21) == []
    assert set(watch.waiters()) == {"p"}


def test_pods_of_an_evicted_try_do_not_wait_in_place_of_the_next() -> None:
    watch = Watch()
    runs = admit(workload("w", 10), 20)
    watch.put("workloads", runs, 20)
    owned = pod("p", 21)
    owned["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train-w", "uid": "job-of-w"}]
    watch.put("pods", unschedulable(owned, 22), 22)
    assert set(watch.waiters()) == {"p"}
    watch.put("workloads", evict(runs, 50, "PodsReadyTimeout"), 50)
    assert set(watch.waiters()) == {"p", "w/2026-10-01T08:00:50Z"}  # until it is gone
    gone = last(deleting(owned, 51))
    watch.put("pods", gone, 52, deleted=True)
    assert set(watch.waiters()) == {"w/2026-10-01T08:00:50Z"}


def test_a_restart_goes_on_and_ends_what_went_meanwhile() -> None:
    watch = Watch()
    for uid in ("stays", "goes"):
        watch.put("workloads", pending(workload(uid, 10), 12), 12)
    watch.restart()
    rows = watch.list("workloads", [pending(workload("stays", 10), 12)], 70)
    assert [(row["allocation_id"], row["event"], row["reason"]) for row in rows] == [
        ("goes", "cancelled", "Deleted, end estimated")
    ]
    assert watch.list("pods", [], 71) == []
    assert set(watch.waiters()) == {"stays"}


def test_an_option_taken_back_ends_the_waits_that_it_reported() -> None:
    watch = Watch()
    watch.put("workloads", pending(workload("w", 10), 12), 12)
    saved = watch.saved["wait"]
    cluster = Cluster(Settings(cluster="c1"))
    cluster.restore("7", second(20), {}, {}, {}, saved)
    found = cluster.apply("pods", Listed([], "8", True, True), second(30)).rows["events"]
    assert brief(found) == [("cancelled", 30, "no longer read")]


def test_a_scheduler_that_is_removed_has_no_waiters_left() -> None:
    watch = Watch()
    watch.put("workloads", pending(workload("w", 10), 12), 12)
    watch._take(watch.cluster.apply("workloads", Unserved("gone", forbidden=True), second(50)))
    assert set(watch.waiters()) == {"w"}, "a right that is missing says nothing of them"
    watch._take(watch.cluster.apply("workloads", Unserved("gone", forbidden=False), second(60)))
    assert watch.waiters() == {}


def test_volcanos_group_waits_until_it_runs_or_its_pods_wait() -> None:
    watch = Watch()
    why = "4/4 tasks in gang unschedulable"
    watch.put("pod_groups", said(pod_group("g", 10), "Unschedulable", "True", 15, "NotEnoughResources", why), 15)
    waits = watch.waiters()["g"]
    assert {key: waits[key] for key in ("queue", "gpus", "reason", "message", "tenant")} == {
        "queue": "research", "gpus": 4.0, "reason": "NotEnoughResources", "message": why, "tenant": "chem",
    }  # fmt: skip
    watch.put("pods", pod("p", 30, annotations={"scheduling.k8s.io/group-name": "group-g"}), 30)
    assert set(watch.waiters()) == {"p"}
    runs = said(pod_group("h", 10, phase="Running"), "Scheduled", "True", 33)
    rows = watch.put("pod_groups", runs, 40)
    assert brief(rows) == [("submitted", 10, ""), ("started", 33, ""), ("cancelled", 33, "Admitted")]
    # Of one that ran before anybody watched and does not say since when, no wait is known.
    assert watch.put("pod_groups", pod_group("i", 10, phase="Running"), 40) == []
    watch.put("pod_groups", pod_group("j", 10), 40)
    assert brief(watch.put("pod_groups", pod_group("j", 10, phase="Running"), 50))[0] == ("started", 50, "")


def levels(watch: Watch) -> dict[tuple[str, str], float]:
    return {(row["service"], row["metric"]): row["value"] for row in watch.levels}


def test_quotas_of_a_cluster_queue() -> None:
    watch = Watch()
    watch.list("cluster_queues", [cluster_queue("alone"), cluster_queue("free", "all", used=None)], 0)
    watch.put("cluster_queues", cluster_queue("bound", "all", borrowingLimit="4", lendingLimit=2), 1)
    assert levels(watch) == {
        ("kueue/alone", "queue_guaranteed_gpus"): 8.0,
        ("kueue/alone", "queue_limit_gpus"): 8.0,
        ("kueue/alone", "queue_held_gpus"): 3.0,
        ("kueue/free", "queue_guaranteed_gpus"): 8.0,  # nothing bounds it, and what it uses is not known
        ("kueue/free", "queue_lendable_gpus"): 8.0,
        ("kueue/bound", "queue_guaranteed_gpus"): 8.0,
        ("kueue/bound", "queue_limit_gpus"): 12.0,
        ("kueue/bound", "queue_lendable_gpus"): 2.0,
        ("kueue/bound", "queue_held_gpus"): 3.0,
        ("kueue/bound", "queue_borrowed_gpus"): 0.0,
    }
    assert watch.findings == []


def test_quotas_of_volcanos_queue() -> None:
    watch = Watch()
    amount = {"cpu": "1", "nvidia.com/gpu": "6"}
    spec = {"capability": amount, "deserved": {"nvidia.com/gpu": "4"}, "guarantee": {"resource": {"amd.com/gpu": 1}}}
    watch.list("volcano_queues", [volcano_queue(**spec), volcano_queue("open")], 0)
    assert levels(watch) == {
        ("volcano/research", "queue_guaranteed_gpus"): 1.0,
        ("volcano/research", "queue_deserved_gpus"): 4.0,
        ("volcano/research", "queue_limit_gpus"): 6.0,
        ("volcano/research", "queue_held_gpus"): 2.0,
        ("volcano/open", "queue_held_gpus"): 2.0,
    }


def test_unchanged_quotas_are_reported_once_a_minute() -> None:
    watch = Watch()
    watch.list("cluster_queues", [cluster_queue()], 0)
    for at, rows in ((30, 3), (61, 6), (90, 6), (122, 9)):
        watch._take(watch.cluster.apply("cluster_queues", Current("8"), second(at)))
        assert len(watch.levels) == rows, at


ODD: list[Any] = [None, True, -1, "-3", "eight", [], {}, "", 1e300, float("nan"), "\u202e8", 10**30, ["8"], {"a": 1}]


@pytest.mark.parametrize(
    ("stream", "found", "says"),
    [
        ("cluster_queues", cluster_queue("q", nominalQuota="-3"), "nvidia.com/gpu in flavor a100 is '-3'"),
        ("cluster_queues", cluster_queue("q", nominalQuota="lots"), "nominalQuota of nvidia.com/gpu"),
        ("cluster_queues", {**cluster_queue("q"), "spec": {"resourceGroups": "all"}}, "resourceGroups of spec"),
        ("cluster_queues", {**cluster_queue("q"), "spec": []}, "spec is []"),
        ("cluster_queues", {**cluster_queue("q"), "status": 7}, "status is 7"),
        ("volcano_queues", volcano_queue("q", weight=0), "spec.weight is 0"),
        ("volcano_queues", volcano_queue("q", weight="heavy"), "spec.weight is 'heavy'"),
        ("volcano_queues", volcano_queue("q", capability={"nvidia.com/gpu": "-1"}), "capability of nvidia.com"),
        ("volcano_queues", volcano_queue("q", deserved=4), "deserved is 4"),
        ("volcano_queues", volcano_queue("q", capability={"nvidia.com/gpu.shared": 4}), "depends on the node"),
        ("workloads", workload("q", count=-2), "count of pod set main is '-2'"),
        ("workloads", {**workload("q"), "spec": {"podSets": 3}}, "spec.podSets is not a list"),
        ("workloads", {"metadata": {"name": "q"}}, "has no uid"),
        ("pod_groups", pod_group("q", gpus="-4"), "minResources of nvidia.com/gpu is '-4'"),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_read_is_one_finding(stream: Stream, found: Object, says: str) -> None:
    watch = Watch()
    for at in (0, 30, 70):
        watch.put(stream, found, at)
    (finding,) = watch.findings
    assert finding["finding"] == "object_invalid"
    assert says in finding["message"]
    assert "\n" not in finding["message"]
    unreadable = ("queue_held_gpus",) if "status" in says else ("queue_guaranteed_gpus", "queue_limit_gpus")
    assert not any(row["metric"] in unreadable for row in watch.levels)
    assert all("gpus" not in row for row in watch.rows), "what it asks for is unknown, not 0"


def test_nothing_in_an_object_is_a_traceback() -> None:
    chance = random.Random(drawn_seed())
    watch = Watch()
    wholes: list[tuple[Stream, Object]] = [
        ("workloads", admit(evict(pending(workload("w"), 5), 9), 12)),
        ("local_queues", local_queue()),
        ("cluster_queues", cluster_queue("q", "all", borrowingLimit="1")),
        (
            "volcano_queues",
            volcano_queue(guarantee={"resource": {"nvidia.com/gpu": 1}}, deserved={"nvidia.com/gpu": 1}),
        ),
        ("pod_groups", said(pod_group("g"), "Unschedulable", "True", 3, "NotEnoughResources", "no")),
    ]

    def places(of: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        keys = of.keys() if isinstance(of, dict) else range(len(of)) if isinstance(of, list) else ()
        return [one for key in keys for one in [(*path, key), *places(of[key], (*path, key))]]

    for stream, whole in wholes:
        for path in places(whole):
            broken = copy.deepcopy(whole)
            of: Any = broken
            for key in path[:-1]:
                of = of[key]
            of[path[-1]] = chance.choice(ODD)
            watch.put(stream, broken, 20)
            watch.put(stream, broken, 21, deleted=True)
            watch.list(stream, [broken], 22)
            watch.restart()
            watch.list("pods", [], 23)


def test_over_http_with_kueue_there_and_volcano_not(tmp_path: Path) -> None:
    with serving() as (server, url):
        server.apply(NODES, node())
        server.apply(LOCAL_QUEUES, local_queue())
        server.apply(CLUSTER_QUEUES, cluster_queue())
        server.apply(WORKLOADS, pending(workload("w", 10), 12))
        with Watching(url, tmp_path / "state", settings=HERE) as watching:
            watching.until(lambda: len(watching.events()) == 2)
            assert {row["queue"] for row in watching.events()} == {"gpus"}
            for kind in ("queues", "podgroups"):
                path = f"/apis/scheduling.volcano.sh/v1beta1/{kind}"
                watching.until(lambda path=path: sum(path in line for line in watching.said) == 1)
            assert not any(record == "findings" for record, _ in watching.rows), "its absence is no trouble"
        with Watching(url, tmp_path / "state", settings=HERE) as again:
            server.apply(WORKLOADS, admit(pending(workload("w", 10), 12), 60))
            labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
            server.apply(PODS, bound(pod("p", 61, labels=labels), 62))
            again.until(lambda: len(again.events()) == 4)
            found = sorted((row["event"], row["allocation_id"]) for row in again.events())
            assert found == [("cancelled", "w"), ("started", "p"), ("started", "w"), ("submitted", "p")]
            assert {row["queue"] for row in again.events()} == {"gpus"}


def test_a_right_that_is_missing_is_one_line_and_one_finding() -> None:
    refusal = {"kind": "Status", "code": 403, "message": "clusterqueues is forbidden"}
    with serving() as (server, url):
        server.apply(NODES, node())
        for version in ("v1beta2", "v1beta1"):
            server.faults.answers[f"/apis/kueue.x-k8s.io/{version}/clusterqueues"] = [(403, refusal, {})] * 10_000
        server.apply(WORKLOADS, workload("w", 10))
        with Watching(url, settings=HERE) as watching:
            watching.until(lambda: any(row.get("finding") == "no_permission" for _, row in watching.rows))
            watching.until(lambda: len(watching.events()) == 1)
            watching.until(lambda: any("may not be read" in line for line in watching.said))
            findings = [row for record, row in watching.rows if record == "findings"]
            (refused,) = [row["message"] for row in findings if row["finding"] == "no_permission"]
            assert refused == "cluster_queues: clusterqueues is forbidden"
            assert [row["queue"] for row in watching.events()] == ["user-queue"]


def test_in_the_books_a_workload_waits_and_its_pod_alone_holds(store: Store) -> None:
    watch = Watch()
    watch.list("local_queues", [local_queue()], 0)
    before = pending(workload("w", 0, gpus=1, count=1), 2)
    watch.put("workloads", before, 2)
    watch.put("workloads", pending(workload("later", 0), 2), 2)
    watch.put("workloads", admit(before, 600), 600)
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    marks = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,0,0:;"}
    placed = bound(pod("p", 601, labels=labels, annotations=marks), 602)
    watch.put("pods", running(admitted(placed, 603), 603), 603)
    watch.put("pods", ended(running(admitted(placed, 603), 603), 4202), 4202)
    device = {"cluster": "c1", "device_id": "GPU-0", "model": "H100", "state": "available", "node": "n1"}
    put = storing(store, "test")
    put(Collected({"devices": [{"ts": second(-3600), **device}], "events": watch.rows}))
    (kept,) = store.rows("SELECT count() AS events FROM events")
    assert kept["events"] == len(watch.rows)
    for at, waiting, holding in ((300, ["later", "w"], []), (601, ["later", "p"], []), (900, ["later"], ["p"])):
        for view, expected in (("waiters", waiting), ("holders", holding)):
            asked = f"SELECT allocation_id FROM {view}(at = {{at:DateTime64(3, 'UTC')}}) ORDER BY allocation_id"
            assert [row["allocation_id"] for row in store.rows(asked, {"at": second(at)})] == expected, (view, at)
    waited = store.rows("SELECT wait_seconds FROM v_queue_wait WHERE allocation_id = 'w'")
    assert [row["wait_seconds"] for row in waited] == [600]
    close(store, second(7200), second(86400))
    found = store.rows(
        "SELECT allocation_id AS of, sum(unmetered_unit_ms) AS ms FROM ledger WHERE of != '' GROUP BY of"
    )
    assert [(row["of"], int(row["ms"])) for row in found] == [("p", 3600 * 1000)]
    assert store.rows("SELECT * FROM quarantine") == []


# A random history of Jobs in Kueue, and the reckoning beside it.


class Job:
    """A Job with one pod a try, as Kueue and the Job's controller treat it.

    waits: [since, until) in which it waits without pods.   held: of its pods: seconds bound.
    """

    def __init__(self, number: int, at: int) -> None:
        self.uid, self.tries = f"w{number}", 0
        self.workload = workload(self.uid, at, gpus=2, count=1)
        self.pod: Object | None = None
        self.state = "suspended"
        self.waits: list[list[int | None]] = [[at, None]]
        self.held: list[list[int | None]] = []

    def step(self, chance: random.Random, at: int) -> list[tuple[Stream, Object, bool]]:
        """What happens to it now."""
        changes: list[tuple[Stream, Object, bool]] = []
        if self.state == "suspended":
            what = chance.choice(["why", "admit", "admit", "delete"])
            if what == "why":
                self.workload = pending(self.workload, at, f"{chance.randint(1, 9)} more needed")
            elif what == "admit":
                self.workload = admit(self.workload, at)
                self.waits[-1][1] = at
                self.state = "admitted"
            else:
                self.waits[-1][1] = at
                self.state = "over"
                return [("workloads", self.workload, True)]
            changes.append(("workloads", self.workload, False))
        elif self.state == "admitted":
            self.tries += 1
            self.pod = pod(f"{self.uid}-{self.tries}", at, gpus=2, annotations={"kueue.x-k8s.io/workload": self.name})
            self.pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": f"job-of-{self.uid}"}]
            self.state = "created"
            changes.append(("pods", self.pod, False))
        elif self.state == "created":
            assert self.pod is not None
            if chance.random() < 0.5:
                self.pod = running(admitted(bound(self.pod, at), at), at)
                self.held.append([at, None])
                self.state = "runs"
                changes.append(("pods", self.pod, False))
            else:
                changes += self._evict(at)
        elif self.state == "runs":
            assert self.pod is not None
            if chance.random() < 0.5:
                self.held[-1][1] = at
                self.workload = finish(self.workload, at)
                changes += [("pods", ended(self.pod, at), False), ("workloads", self.workload, False)]
                self.state = "over"
            else:
                changes += self._evict(at)
        elif self.state == "stopping":
            assert self.pod is not None
            if self.held and self.held[-1][1] is None:
                self.held[-1][1] = at
                self.pod = ended(self.pod, at, code=137)
            self.workload = requeue(self.workload, at)
            changes += [("pods", last(deleting(self.pod, at - 1)), True), ("workloads", self.workload, False)]
            self.pod, self.state = None, "suspended"
        return changes

    def _evict(self, at: int) -> list[tuple[Stream, Object, bool]]:
        self.workload = evict(self.workload, at, message="Preempted to accommodate another")
        self.waits.append([at, None])
        self.state = "stopping"
        return [("workloads", self.workload, False)]

    @property
    def name(self) -> str:
        return str(self.workload["metadata"]["name"])

    def waiting(self) -> int:
        """How many waiters there are of it now: itself, and its pod before it is bound."""
        unbound = self.pod is not None and self.state in ("created", "stopping") and "nodeName" not in self.pod["spec"]
        return int(self.waits[-1][1] is None) + int(unbound)


class Gated(Job):
    """A plain pod that Kueue's webhook gated: it is there before its Workload, and waits itself."""

    def __init__(self, number: int, at: int) -> None:
        super().__init__(number, at)
        labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
        self.pod = pod(f"{self.uid}-p", at, gpus=2, labels=labels)
        self.pod["status"]["conditions"] = []
        self.workload["metadata"]["ownerReferences"] = [{"kind": "Pod", "uid": f"{self.uid}-p"}]

    def step(self, chance: random.Random, at: int) -> list[tuple[Stream, Object, bool]]:
        assert self.pod is not None or self.state == "over"
        before, self.state = self.state, "over"
        if before == "suspended" and chance.random() < 0.3:
            gone, self.pod = self.pod, None
            return [("pods", last(deleting(gone or {}, at, 0)), True), ("workloads", self.workload, True)]
        if before == "suspended":
            self.workload, self.state = admit(self.workload, at), "created"
            return [("workloads", self.workload, False)]
        if before == "created":
            self.pod, self.state = running(admitted(bound(self.pod or {}, at), at), at), "runs"
            self.held.append([at, None])
            return [("pods", self.pod, False)]
        if before == "runs":
            self.pod, self.workload = ended(self.pod or {}, at), finish(self.workload, at)
            self.held[-1][1] = at
            return [("workloads", self.workload, False), ("pods", self.pod, False)]
        return []

    def waiting(self) -> int:
        return int(self.state in ("suspended", "created"))


@pytest.mark.parametrize("number", range(int(os.environ.get("GPULEDGER_QUEUES", "20"))))
def test_each_waiter_counts_once_and_gpu_hours_are_those_of_pods(number: int) -> None:
    seed = drawn_seed()
    print(f"GPULEDGER_SEED={seed}")
    chance = random.Random(seed)
    watch, clock = Watch(), 10
    jobs = [(Job if number < 4 else Gated)(number, clock - number) for number in range(6)]
    for job in jobs:
        created: list[tuple[Stream, Object]] = [("workloads", job.workload)]
        created += [("pods", job.pod)] if job.pod is not None else []
        for stream, found in chance.sample(created, len(created)):
            watch.put(stream, found, clock)
    for _ in range(80):
        clock += chance.randint(1, 400)
        job = chance.choice(jobs)
        for stream, found, deleted in job.step(chance, clock):
            watch.put(stream, found, clock, deleted)
        if chance.random() < 0.1:
            watch.restart()
            workloads = [each.workload for each in jobs if each.state != "over" or "status" in each.workload]
            watch.list("workloads", [each for each in workloads if _there(each, jobs)], clock)
            watch.list("pods", [each.pod for each in jobs if each.pod is not None], clock)
        found_of = {each.uid: [key for key in watch.waiters() if key.startswith(each.uid)] for each in jobs}
        assert {uid: len(found) for uid, found in found_of.items()} == {each.uid: each.waiting() for each in jobs}
    for job in jobs:
        rows = [row for row in watch.rows if row["workload_id"] == job.uid]
        assert not any({"node", "device_id"} & row.keys() for row in rows)
        if isinstance(job, Gated):  # at most for the moment before its pod was heard of
            assert len({row["ts"] for row in rows}) <= 1
            continue
        starts = {row["allocation_id"]: row["ts"] for row in rows if row["event"] == "submitted"}
        begins = sorted(min(row["ts"] for row in rows if row["allocation_id"] == key) for key in starts)
        assert begins == [second(since or 0) for since, _ in job.waits]
        ends = sorted(row["ts"] for row in rows if row["event"] == "cancelled")
        assert ends == [second(until) for _, until in job.waits if until is not None]
    assert _held(watch.rows, clock) == sum(
        ((until or clock) - (since or 0)) * 2 for job in jobs for since, until in job.held
    )


def _there(found: Object, jobs: list[Job]) -> bool:
    job = next(each for each in jobs if each.workload is found)
    return not (job.state == "over" and not any(one["type"] == "Finished" for one in _conditions(found)))


def _conditions(found: Object) -> list[Any]:
    return list(found["status"].get("conditions", []))


def _held(rows: list[Row], until: int) -> float:
    """GPU-seconds, as of all rows with a place."""
    total = timedelta(0).total_seconds()
    for row in rows:
        if row["event"] == "started" and ("node" in row or "device_id" in row):
            own = [one["ts"] for one in rows if one["allocation_id"] == row["allocation_id"] and one["event"] in ENDS]
            total += ((min(own, default=second(until))) - row["ts"]).total_seconds() * row["gpus"]
    return total
