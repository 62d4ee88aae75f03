"""What a pod's object says of its life, as event rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collectors.kubernetes.kueue import Evictions
from collectors.kubernetes.pods import Around, DeviceFacts, Heard, Known, observe, vanished
from collectors.kubernetes.reclaims import Reclaimed
from collectors.kubernetes.resources import NodeFacts
from collectors.kubernetes.settings import Settings
from tests.collectors.kubernetes.make import (
    Pod,
    admitted,
    bound,
    deleting,
    ended,
    last,
    pod,
    rejected,
    running,
    second,
    stamp,
    unschedulable,
    with_condition,
)  # fmt: skip

HERE = Settings(cluster="c1", tenant_marks=("team",))


def reported(
    *versions: Pod,
    deleted: bool = False,
    around: Around = Around(),  # noqa: B008
    settings: Settings = HERE,
    at: float = 9999,
) -> list[Any]:
    """All rows of a pod seen in these versions at that second; deleted: the last one as it was."""
    known: Known | None = None
    rows: list[Any] = []
    for number, version in enumerate(versions, 1):
        gone = deleted and number == len(versions)
        observed = observe(known, version, around, settings, Heard(second(at), gone=gone))
        # What is remembered survives being written down.
        known = None if observed.known is None else Known.of(observed.known.plain())
        rows += observed.rows
    return rows


def short(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [(row["event"], (row["ts"] - second(0)).total_seconds(), row.get("reason", "")) for row in rows]


def life(uid: str = "u", **more: Any) -> list[Pod]:
    """Created, without a place, bound, admitted, running."""
    versions = [pod(uid, 0, **more)]
    versions.append(unschedulable(versions[-1], 2))
    versions.append(bound(versions[-1], 60))
    versions.append(admitted(versions[-1], 61))
    versions.append(running(versions[-1], 90))
    return versions


def test_a_pods_creation_wait_start_and_end_are_reported() -> None:
    labels = {"team": "physics", "kueue.x-k8s.io/queue-name": "batch"}
    versions = life(labels=labels, gpus=2)
    rows = reported(*versions, ended(versions[-1], 400))
    assert short(rows) == [
        ("submitted", 0, ""),
        ("submitted", 2, "Unschedulable"),
        ("started", 60, ""),
        ("finished", 400, ""),
    ]
    assert rows[2] == {
        "ts": second(60), "cluster": "c1", "source": "kubernetes", "allocation_id": "u", "workload_id": "u",
        "event": "started", "tenant": "physics", "project": "chem", "queue": "batch", "priority": 100, "gpus": 2.0,
        "node": "n1",
    }  # fmt: skip
    assert rows[0]["message"] == "pod chem/train-u"
    assert rows[1]["message"] == "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def test_the_last_version_alone_tells_the_same_starts_and_ends() -> None:
    versions = life()
    versions.append(ended(versions[-1], 400))
    every = [row for row in reported(*versions) if row.get("reason") != "Unschedulable"]
    assert reported(versions[-1]) == every
    assert reported(versions[-1], versions[-1], deleted=True) == every


def ends(*versions: Pod, deleted: bool = False, **more: Any) -> list[tuple[Any, ...]]:
    rows = reported(*life(), *versions, deleted=deleted, **more)
    return [found for found in short(rows) if found[0] not in ("submitted", "started")]


def test_a_job_that_fails_says_which_container_and_why() -> None:
    oom = ended(life()[-1], 300, 137, "OOMKilled")
    rows = reported(*life(), oom)
    assert (rows[-1]["event"], rows[-1]["reason"], rows[-1]["message"]) == (
        "failed", "OOMKilled", "container main exited with 137",
    )  # fmt: skip


def test_an_end_before_the_deletion_was_asked_for_is_its_own() -> None:
    done = ended(life()[-1], 300, 1)
    assert ends(deleting(done, 301), deleted=True) == [("failed", 300, "Error")]
    killed = ended(deleting(life()[-1], 299), 301, 143)
    assert ends(killed) == [("cancelled", 301, "Deleted")]
    assert ends(ended(deleting(life()[-1], 301), 301, 0)) == [("cancelled", 301, "Deleted")]


def test_a_pod_deleted_without_a_final_phase_ends_when_its_container_did() -> None:
    stopped = ended(deleting(life()[-1], 299), 305, 143, phase="Running")
    assert ends(deleting(life()[-1], 299), stopped) == []
    assert ends(stopped, last(stopped), deleted=True) == [("cancelled", 305, "Deleted")]


def test_a_forced_deletion_ends_when_it_was_asked_for_and_without_a_stamp_when_it_came() -> None:
    assert ends(deleting(life()[-1], 250, grace=0), deleted=True) == [("cancelled", 250, "Deleted")]
    assert ends(last(deleting(life()[-1], 250)), deleted=True) == [("cancelled", 250, "Deleted")]
    assert ends(life()[-1], deleted=True) == [("cancelled", 9999, "Deleted")]


def test_a_pending_pod_that_is_deleted_was_cancelled() -> None:
    waiting = life()[1]
    assert short(reported(waiting, deleting(waiting, 30, 0), deleted=True))[-1] == ("cancelled", 30, "Deleted")


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("PreemptionByScheduler", "preempted"),
        ("EvictionByEvictionAPI", "preempted"),
        ("DeletionByTaintManager", "failed"),
        ("DeletionByPodGC", "failed"),
        ("KarpenterDisruption", "preempted"),
    ],
)
def test_what_took_the_devices_away_is_reported(reason: str, event: str) -> None:
    marked = with_condition(
        life()[-1],
        "DisruptionTarget",
        "True",
        300,
        reason,
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    killed = ended(deleting(marked, 300), 310, 137)
    rows = reported(*life(), marked, killed)
    assert (rows[-1]["event"], rows[-1]["reason"], rows[-1]["ts"], rows[-1]["actor"]) == (
        event, reason, second(310), "default-scheduler",
    )  # fmt: skip


TOLD = Reclaimed(
    "IdleReclaimed",
    "suspended",
    "idle policy",
    "chem/train",
    "chem/train@1/2",
    12,
    0,
    "idle for 2h",
    "2026-10-09T08:00:00.000Z",
)


def of_elastic_job(told: Reclaimed = TOLD, at: float = 300, **owner: Any) -> list[Pod]:
    """The life of one of its pods, up to when the operator has said why it deletes it next."""
    labels = {"gpuledger.io/rank": "1", "gpuledger.io/world-size": "3"}
    by = {"apiVersion": "gpuledger.io/v1alpha1", "kind": "ElasticJob", "name": "train", "controller": True} | owner
    marks = {"gpuledger.io/allocation": "chem/train@1/2"}
    versions = life(labels=labels, annotations=marks)
    for version in versions:
        version["metadata"] |= {"name": "train-12-1", "ownerReferences": [by]}
    return [*versions, with_condition(versions[-1], "DisruptionTarget", "True", at, told.reason, told.message())]


def test_what_an_idle_policy_took_is_cancelled_for_that_reason_with_its_evidence() -> None:
    versions = of_elastic_job()
    # By the operator's clock it was said after the deletion was asked for.
    for at in (300, 900):
        marked = of_elastic_job(at=at)[-1]
        rows = reported(*versions[:-1], marked, ended(deleting(marked, 301), 310, 143))
        assert short(rows)[-1] == ("cancelled", 310, "IdleReclaimed")
        assert (rows[-1]["actor"], rows[-1]["message"]) == ("idle policy", TOLD.message())
    assert rows[0]["message"] == (
        "pod chem/train-12-1 of ElasticJob/train: rank 1 of 3 in placement 12, chem/train@1/2"
    )
    rows = reported(*versions, deleting(versions[-1], 301, grace=0), deleted=True)
    assert short(rows)[-1] == ("cancelled", 301, "IdleReclaimed")
    rows = reported(*of_elastic_job(replace(TOLD, reason="Rescaled", actor="ada"), at=99_999), deleted=True)
    assert (short(rows)[-1], rows[-1]["actor"]) == (("cancelled", 9999, "Rescaled"), "ada"), "whatever its clock shows"


def test_a_pod_that_was_to_be_deleted_and_ended_by_itself_was_not_taken() -> None:
    marked = of_elastic_job()[-1]
    assert ends(marked, ended(marked, 400)) == [("finished", 400, "")]
    assert ends(marked, ended(marked, 400, 1)) == [("failed", 400, "Error")]
    assert ends(marked, deleting(ended(marked, 400), 500), deleted=True) == [("finished", 400, "")]


GATED = replace(TOLD, act="cancelled", job="", allocation="chem/train@7", world=0, left=0)


def gated_pod(told: Reclaimed = GATED, kind: str = "gpuledger.io/Reclaimed", admitted: str = "chem/train@7") -> Pod:
    """One that the operator let in and evicts, which the API server says, too."""
    version = life(annotations={"gpuledger.io/allocation": admitted} if admitted else {})[-1]
    marked = with_condition(version, kind, "True", 300, told.reason, told.message())
    if kind == "DisruptionTarget":
        return marked
    return with_condition(marked, "DisruptionTarget", "True", 301, "EvictionByEvictionAPI", "Eviction API: evicting")


def test_a_gated_pod_that_an_idle_policy_took_is_cancelled_for_that_reason() -> None:
    for told in (GATED, replace(GATED, allocation="chem/train@7/2")):
        rows = reported(*life(), gated_pod(told), ended(deleting(gated_pod(told), 301), 310, 143))
        assert short(rows)[-1] == ("cancelled", 310, "IdleReclaimed")
        assert (rows[-1]["actor"], rows[-1]["message"]) == ("idle policy", told.message())
        assert "world" not in told.message()


@pytest.mark.parametrize(
    "other",
    [
        gated_pod(admitted=""),
        gated_pod(admitted="chem/tra"),
        gated_pod(replace(GATED, act="suspended")),
        gated_pod(replace(GATED, job="chem/train")),
        gated_pod(replace(GATED, reason="Other")),
        gated_pod(kind="DisruptionTarget"),
    ],
)
def test_what_only_looks_like_the_operators_word_on_a_gated_pod_is_not_its(other: Pod) -> None:
    ((event, when, _),) = ends(other, ended(deleting(other, 301), 310, 143))
    assert (event, when) == ("preempted", 310)


@pytest.mark.parametrize("version", ["owner", "controller", "job", "message", "act", "world", "left"])
def test_only_the_operator_says_of_its_own_pods_that_they_were_idle(version: str) -> None:
    """Anybody else who says so took the devices for a reason of their own."""
    owners = {"owner": {"apiVersion": "example.com/v1"}, "controller": {"controller": False}}
    changes = {"job": {"job": "chem/other"}, "act": {"act": "moved"}, "world": {"world": "12"}, "left": {"left": -1}}
    marked = of_elastic_job(replace(TOLD, **changes.get(version, {})), **owners.get(version, {}))[-1]
    if version == "message":
        marked = with_condition(marked, "DisruptionTarget", "True", 300, "IdleReclaimed", "[1]")
    assert ends(marked, ended(deleting(marked, 301), 310, 143)) == [("preempted", 310, "IdleReclaimed")]


def test_a_pod_that_was_done_before_its_node_went_is_finished() -> None:
    done = with_condition(ended(life()[-1], 300), "DisruptionTarget", "True", 500, "DeletionByPodGC")
    assert ends(done) == [("finished", 300, "")]


def test_the_kubelets_eviction_and_its_preemption_for_a_critical_pod_differ() -> None:
    def by_kubelet(reason: str) -> Pod:
        marked = with_condition(life()[-1], "DisruptionTarget", "True", 300, "TerminationByKubelet", "low on memory")
        after = ended(marked, 302, 137)
        after["status"] |= {"reason": reason, "message": "The node was low on resource: memory."}
        return after

    assert ends(by_kubelet("Evicted")) == [("failed", 302, "Evicted")]
    assert ends(by_kubelet("Preempting")) == [("preempted", 302, "Preempting")]


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfnvidia.com/gpu"])
def test_what_the_kubelet_did_not_admit_held_its_place_from_its_binding_until_then(reason: str) -> None:
    versions = life()[:3]
    rows = reported(*versions, rejected(versions[-1], 62, reason))
    assert short(rows)[2:] == [("started", 60, ""), ("rejected", 62, reason)]
    assert rows[-1]["message"] == "Pod was rejected: Allocate failed"
    # Its last word alone keeps no stamp of its binding.
    assert short(reported(rejected(versions[-1], 62, reason))) == [("submitted", 0, ""), ("rejected", 62, reason)]


def test_what_a_kubelet_that_started_again_does_not_admit_any_more_ran_until_then() -> None:
    versions = life()
    again = rejected(versions[-1], 61)
    again["metadata"]["managedFields"] = wrote(5000)
    assert short(reported(*versions, again, at=5001))[2:] == [
        ("started", 60, ""),
        ("failed", 5000, "UnexpectedAdmissionError"),
    ]


def wrote(at: float) -> list[Any]:
    """The status' phase was written then."""
    return [{"time": stamp(at), "subresource": "status", "fieldsV1": {"f:status": {"f:phase": {}}}}]


def test_an_old_kubelets_eviction_that_keeps_no_container_is_no_rejection() -> None:
    after = life()[-1]
    after["status"] = {"phase": "Failed", "reason": "Evicted", "startTime": stamp(61), "message": "was low on memory"}
    after = with_condition(after, "DisruptionTarget", "True", 300, "TerminationByKubelet")
    assert short(reported(after)) == [("submitted", 0, ""), ("started", 61, ""), ("failed", 9999, "Evicted")]
    after["status"]["message"] = "Pod was rejected: The node had condition: [DiskPressure]."
    assert short(reported(after)) == [("submitted", 0, ""), ("rejected", 61, "Evicted")]


def test_an_init_containers_end_is_not_the_pods() -> None:
    """Eight GPUs for four hours, of an image that was never there."""
    placed = life(gpus=8)[3]
    init = {"name": "init", "state": {"terminated": {"exitCode": 0, "startedAt": stamp(70), "finishedAt": stamp(115)}}}
    main = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    placed["status"] |= {"initContainerStatuses": [init], "containerStatuses": [main]}
    assert [row["event"] for row in reported(placed)] == ["submitted", "started"]
    dying = deleting(placed, 14_460)
    over = {**dying, "status": {**dying["status"], "phase": "Failed"}}
    lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    over["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": lost}}]
    over["metadata"] = {**over["metadata"], "managedFields": wrote(14_461)}
    assert short(reported(placed, dying, over, at=14_462))[1:] == [
        ("started", 60, ""),
        ("cancelled", 14_461, "Deleted"),
    ]
    over["metadata"]["managedFields"] = []  # nothing tells, so it is when we hear of it
    assert short(reported(placed, dying, over, at=14_470))[-1] == ("cancelled", 14_470, "Deleted")
    # A failed one is the pod's: its others never began.
    init["state"] = {"terminated": {"exitCode": 1, "startedAt": stamp(70), "finishedAt": stamp(115)}}
    failed = {**placed, "status": {**placed["status"], "phase": "Failed", "containerStatuses": [main]}}
    assert short(reported(failed))[-1] == ("failed", 115, "Error")


def test_a_loop_of_crashes_holds_its_devices_between_them() -> None:
    crashed = ended(life(spec={"restartPolicy": "Always"})[-1], 100, 1, phase="Running")
    assert [row["event"] for row in reported(crashed)] == ["submitted", "started"]
    dying = deleting(crashed, 340)
    assert short(reported(crashed, dying, deleted=True))[-1] == ("cancelled", 9999, "Deleted")
    killed = ended(dying, 345, 143, phase="Running")
    assert short(reported(crashed, dying, killed, deleted=True))[-1] == ("cancelled", 345, "Deleted")
    never = ended(life(spec={"restartPolicy": "Never"})[-1], 100, 1)
    assert short(reported(never, deleting(never, 340), deleted=True))[-1] == ("failed", 100, "Error")


def test_a_time_that_the_server_did_not_keep_up_is_not_believed() -> None:
    """Before 1.25 the writer's time may be that of the pod's start."""
    gone = ended(life(spec={"restartPolicy": "Always"})[-1], 100, 137)
    gone["status"]["reason"] = "DeadlineExceeded"
    gone["metadata"]["managedFields"] = wrote(90)
    assert short(reported(gone))[-1] == ("failed", 9999, "DeadlineExceeded")


def test_kueues_own_pods_say_why_they_were_stopped() -> None:
    text = "Preempted to accommodate a workload (UID: w2) due to prioritization in the ClusterQueue"
    marked = with_condition(life()[-1], "TerminationTarget", "True", 300, "WorkloadEvictedDueToPreempted", text)
    rows = reported(*life(), ended(deleting(marked, 300), 305, 143))
    assert (rows[-1]["event"], rows[-1]["reason"], rows[-1]["actor"], rows[-1]["message"]) == (
        "preempted", "Preempted", "kueue", text,
    )  # fmt: skip
    other = with_condition(life()[-1], "TerminationTarget", "True", 300, "WorkloadEvictedDueToPodsReadyTimeout")
    assert ends(ended(deleting(other, 300), 305, 143)) == [("failed", 305, "PodsReadyTimeout")]
    other = with_condition(life()[-1], "TerminationTarget", "True", 300, "WorkloadInactive")
    assert ends(ended(deleting(other, 300), 305, 143)) == [("cancelled", 305, "WorkloadInactive")]


def test_a_jobs_pods_learn_from_kueues_workload_that_they_were_preempted() -> None:
    evictions = Evictions()
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "lastTransitionTime": stamp(300),
        "message": "to accommodate w2",
    }
    evictions.put(
        {
            "metadata": {"namespace": "chem", "name": "job-train", "ownerReferences": [{"uid": "job-1"}]},
            "status": {"conditions": [evicted]},
        }
    )
    around = Around(eviction=evictions.of)

    def killed(**more: Any) -> list[Pod]:
        return [*life(**more), ended(deleting(life(**more)[-1], 301), 306, 143)]

    by_annotation = reported(*killed(annotations={"kueue.x-k8s.io/workload": "job-train"}), around=around)
    assert (by_annotation[-1]["event"], by_annotation[-1]["actor"]) == ("preempted", "kueue")
    owned = killed()
    for version in owned:
        version["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "job-1"}]
    rows = reported(*owned, around=around)
    assert (rows[-1]["event"], rows[-1]["message"]) == ("preempted", "to accommodate w2")
    assert rows[0]["message"] == "pod chem/train-u of Job/train"
    # The next try's pods were made after it, and another's workload is another's.
    assert (
        reported(*killed(annotations={"kueue.x-k8s.io/workload": "other"}), around=around)[-1]["event"] == "cancelled"
    )
    later = reported(pod("v", 400, annotations={"kueue.x-k8s.io/workload": "job-train"}), around=around)
    again = pod("v", 400, annotations={"kueue.x-k8s.io/workload": "job-train"})
    assert later[0]["event"] == "submitted"
    assert reported(again, deleting(again, 500, 0), deleted=True, around=around)[-1]["event"] == "cancelled"


def test_volcanos_eviction_is_a_preemption() -> None:
    marked = with_condition(life()[-1], "Ready", "False", 300, "Evict", "evicted by reclaim")
    rows = reported(*life(), deleting(marked, 300), deleting(marked, 300), deleted=True)
    assert (rows[-1]["event"], rows[-1]["actor"], rows[-1]["message"]) == ("preempted", "volcano", "evicted by reclaim")


def test_partitions_are_allocations_of_their_own_and_all_of_them_end() -> None:
    versions = life(resources={"nvidia.com/mig-1g.10gb": 2})
    rows = reported(*versions, ended(versions[-1], 400))
    starts = [row for row in rows if row["event"] == "started"]
    assert [(row["allocation_id"], row["units"], row["partition_profile"]) for row in starts] == [
        ("u", 1, "1g.10gb"),
        ("u/2", 1, "1g.10gb"),
    ]
    assert {row["workload_id"] for row in rows} == {"u"}
    assert [row["allocation_id"] for row in rows if row["event"] == "finished"] == ["u", "u/2"]


def test_a_sharing_schedulers_annotation_names_the_devices_and_their_part() -> None:
    annotations = {"hami.io/vgpu-devices-allocated": "GPU-aa,NVIDIA,4096,30:GPU-bb,NVIDIA,4096,30:;"}
    versions = life(resources={"nvidia.com/gpu": 2, "nvidia.com/gpumem": 4096}, annotations=annotations)
    around = Around(device=lambda _: DeviceFacts(units=100, memory_bytes=16384 << 20))
    starts = [row for row in reported(*versions, around=around) if row["event"] == "started"]
    assert [(row["device_id"], row["units"], row["allocation_id"]) for row in starts] == [
        ("GPU-aa", 30, "u"),
        ("GPU-bb", 30, "u"),
    ]
    by_memory = reported(*versions, around=around, settings=replace(HERE, share_by="memory"))
    assert [row["units"] for row in by_memory if row["event"] == "started"] == [25, 25]
    whole = reported(*versions, around=Around(node=lambda _: NodeFacts(memory_mib=16384.0)))
    assert [row.get("units") for row in whole if row["event"] == "started"] == [None, None]
    assert [row["gpus"] for row in whole if row["event"] == "started"] == [0.5, 0.5]


def test_marks_say_who_pays_and_what_may_be_preempted() -> None:
    labels = {"kai.scheduler/queue": "research", "kai.scheduler/preemptibility": "preemptible"}
    (row,) = reported(pod("u", labels=labels, annotations={"hub.jupyter.org/username": "ada"}))
    assert (row["tenant"], row["queue"], row["preemptible"], row["actor"]) == ("chem", "research", True, "ada")
    (row,) = reported(
        pod("u", annotations={"scheduling.volcano.sh/queue-name": "q", "volcano.sh/preemptable": "false"})
    )
    assert (row["queue"], row["preemptible"]) == ("q", False)


def test_a_static_pods_workload_is_what_its_cgroup_says() -> None:
    marks = {"kubernetes.io/config.mirror": "0a1b", "kubernetes.io/config.hash": "0a1b"}
    (row,) = reported(pod("mirror-uid", annotations=marks))
    assert (row["workload_id"], row["allocation_id"]) == ("0a1b", "mirror-uid")


def test_what_ended_unseen_is_estimated_from_what_was_known() -> None:
    def unseen(*versions: Pod) -> list[tuple[Any, ...]]:
        known: Known | None = None
        for version in versions:
            known = observe(known, version, Around(), HERE, Heard(second(9999))).known
        assert known is not None
        return short(list(vanished(known, second(500), second(600)).rows))

    assert unseen(*life()) == [("cancelled", 500, "Deleted, end estimated")]
    assert unseen(*life(), deleting(life()[-1], 450)) == [("cancelled", 500, "Deleted, end estimated")]
    stopped = ended(deleting(life()[-1], 450), 455, 143, phase="Running")
    assert unseen(*life(), stopped) == [("cancelled", 455, "Deleted")]
    marked = with_condition(life()[-1], "DisruptionTarget", "True", 450, "PreemptionByScheduler")
    assert unseen(*life(), marked) == [("preempted", 500, "PreemptionByScheduler, end estimated")]
    assert unseen(*life(), ended(life()[-1], 400)) == []
    assert unseen(*of_elastic_job()) == [("cancelled", 500, "IdleReclaimed, end estimated")]
    known = observe(None, of_elastic_job()[-1], Around(), HERE, Heard(second(9999))).known
    assert known is not None
    assert vanished(known, second(500), second(600)).rows[-1]["message"] == TOLD.message()


def test_pods_without_accelerators_are_not_reported() -> None:
    assert reported(pod("u", gpus=0)) == []


def test_a_stored_state_with_the_old_key_told_is_read() -> None:
    known = Known(node="n1", allocations=("u1",), reported=("submitted", "started"))
    plain = known.plain()
    plain["told"] = plain.pop("reported")
    assert Known.of(plain) == known
