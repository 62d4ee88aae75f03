"""The API as the operator has it: what is known after calls, lists and watches that come in any order; and refusals."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from collectors.kubernetes.api import Absent, Conflict, Interrupted, Refused
from collectors.kubernetes.connection import Connection
from collectors.kubernetes.follow import Backoff, Changed, Current, Listed
from scheduler.kubernetes.calls import MERGE, Call
from scheduler.kubernetes.cluster import DEEPEST, ApiCluster, _Cache, _slim
from scheduler.kubernetes.elastic_jobs import PATH
from scheduler.kubernetes.pods import JOB
from tests.collectors.kubernetes.server import NODES, PODS, ApiServer, serving
from tests.patience import until
from tests.scheduler.kubernetes.standin import gated_pod

SPACES = "/api/v1/namespaces"
OF_SPACE = f"{SPACES}/chem/pods"


def pod(name: str, version: int = 1, phase: str = "Pending", **metadata: Any) -> dict[str, Any]:
    owner = {"kind": "ElasticJob", "uid": "u", "name": "train", "controller": True}
    about = {"name": name, "namespace": "chem", "labels": {JOB: "train"}, "ownerReferences": [owner]}
    return {
        "kind": "Pod",
        "metadata": about | {"resourceVersion": str(version)} | metadata,
        "status": {"phase": phase},
    }


@pytest.fixture
def server() -> Iterator[tuple[ApiServer, ApiCluster]]:
    with serving() as (api, url):
        api.served |= {PODS, NODES, SPACES, PATH}
        with ApiCluster(Connection(url), Backoff(0.01, 0.02, 0.02)) as cluster:
            until(cluster.look)
            yield api, cluster


def create(name: str) -> Call:
    return Call("POST", OF_SPACE, pod(name))


def test_answers_to_calls_are_known_at_once_and_refusals_are_distinguished(
    server: tuple[ApiServer, ApiCluster],
) -> None:
    api, cluster = server
    status = {"kind": "Status", "message": "so it is"}
    api.faults.answers[OF_SPACE] = [(201, pod("a", 10**6), {}), (409, status, {}), (403, status, {}), (422, status, {})]
    outcomes = [cluster.carry_out([create(name)])[0] for name in "abcd"]
    assert [type(one) for one in outcomes] == [dict, Conflict, Absent, Refused]
    assert "so it is" in str(outcomes[3])
    found = cluster.look()
    assert found is not None
    assert list(found.pods) == [("chem", "a")]


def test_a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks(server: tuple[ApiServer, ApiCluster]) -> None:
    api, cluster = server
    api.faults.answers[OF_SPACE] = [(429, {"message": "busy"}, {"Retry-After": "1"}), (201, pod("a", 10**6), {})]
    began = time.monotonic()
    (first,) = cluster.carry_out([create("a")])
    (second,) = cluster.carry_out([create("a")])
    assert (type(first), type(second)) == (Interrupted, Interrupted)
    assert len(api.changes) == 1, "the second was not sent"
    until(lambda: isinstance(cluster.carry_out([create("a")])[0], dict), every=0.05)
    assert time.monotonic() - began >= 1


def test_pods_that_no_elastic_job_owns_are_nobodys_here(server: tuple[ApiServer, ApiCluster]) -> None:
    api, cluster = server
    api.apply(PODS, pod("foreign", ownerReferences=[]))
    api.apply(PODS, pod("ours"))
    api.apply(PATH, {"kind": "ElasticJob", "metadata": {"name": "train", "namespace": "chem", "uid": "u"}})

    def all_there() -> bool:
        found = cluster.look()
        return found is not None and list(found.pods) == [("chem", "ours")] and list(found.jobs) == ["u"]

    until(all_there, cluster.look)


def test_what_cannot_be_followed_is_said_and_listed_again(
    server: tuple[ApiServer, ApiCluster], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api, cluster = server
    cache, left = cluster._pods, [ValueError("a mistake of ours")]
    keep = cache.keep

    def mistaken(of: dict[str, Any]) -> Any:
        if left:
            raise left.pop()
        return keep(of)

    monkeypatch.setattr("scheduler.kubernetes.cluster.AGAIN_SECONDS", 0.01)
    until(cluster.look)
    cache.keep = mistaken
    api.apply(PODS, pod("ours"))
    until(lambda: (found := cluster.look()) is not None and list(found.pods) == [("chem", "ours")], cluster.look)
    assert "a mistake of ours" in caplog.text


def test_pods_at_the_gate_are_known_by_their_queue_and_a_budget_delays_no_other_call() -> None:
    with serving() as (api, url):
        api.served |= {PODS, NODES, SPACES, PATH}
        with ApiCluster(Connection(url), Backoff(0.01, 0.02, 0.02), gated=True) as cluster:
            waits = gated_pod("waits", "u1") | {"kind": "Pod"}
            api.apply(PODS, waits)
            api.apply(PODS, pod("ours"))
            until(lambda: (found := cluster.look()) is not None and "u1" in found.gated and found.pods)
            path = f"{OF_SPACE}/waits"
            version = {"resourceVersion": str(10**6)}
            let_in = waits | {"metadata": waits["metadata"] | version, "spec": {"schedulingGates": []}}
            budget = (429, {"message": "it would violate the pod's disruption budget"}, {"Retry-After": "60"})
            api.faults.answers[f"{path}/eviction"] = [budget]
            api.faults.answers[path] = [(200, let_in, {})]
            (refused,) = cluster.carry_out([Call("POST", f"{path}/eviction", {})])
            assert isinstance(refused, Interrupted)
            cluster.carry_out([Call("PATCH", path, {}, MERGE)])
            found = cluster.look()
            assert found is not None
            assert found.gated["u1"]["spec"] == {"schedulingGates": []}, "before the watch says so"
            assert list(found.pods) == [("chem", "ours")]


@pytest.mark.parametrize("seed", range(20))
def test_late_answers_and_lists_bring_nothing_back(seed: int) -> None:
    """Versions of one pod, told by watch, list and answers in drawn order; the last word is the latest version's."""
    chance = random.Random(seed)
    cache = _Cache("", lambda one: one["metadata"]["name"], lambda one: one)
    truth: dict[int, dict[str, Any] | None] = {0: None}
    there, known = False, 0
    for version in range(1, 40):
        there = not there or chance.random() < 0.6
        found = pod("a", version, chance.choice(["Pending", "Running"]))
        truth[version] = found if there else None
        how = chance.choice(["watch", "watch", "answer", "list", "nothing"])
        if how == "watch":
            cache.take(Changed(found, str(version), deleted=not there))
            known = version
        elif how == "answer" and there:
            cache.put(found)
            known = version
        elif how == "list":
            at = chance.randint(known, version)
            of_list = truth[at]
            cache.take(Listed([of_list] if of_list else [], str(at), first=True, last=True))
            known = at
        late = chance.randint(0, known)
        old = truth[late]
        if old is not None and chance.random() < 0.5 and late < known:
            cache.put(old)
        expected = truth[known]
        assert cache.objects == ({} if expected is None else {"a": expected}), (seed, version)


@pytest.mark.parametrize("how", [Changed(pod("later", 90), "90", deleted=False), Current("90")])
def test_after_etcd_was_restored_there_is_what_the_list_says(how: Changed | Current) -> None:
    cache = _Cache("", lambda one: one["metadata"]["name"], lambda one: one)
    cache.take(Listed([pod("gone", 10), pod("changed", 50, "Running")], "50", first=True, last=True))
    cache.take(Changed(pod("gone", 80), "80", deleted=True))
    cache.take(how)
    cache.put(pod("made", 95))
    there = {"gone": pod("gone", 10), "changed": pod("changed", 20)}
    cache.take(Listed(list(there.values()), "40", first=True, last=True))
    assert cache.objects == there
    for again in (pod("later", 45), pod("gone", 46, "Running")):
        assert cache.put(again)
        assert cache.objects[again["metadata"]["name"]] == again


def test_an_object_that_nests_without_end_is_kept_as_far_as_a_pod_may_nest() -> None:
    """Of an ElasticJob's template nothing is pruned."""
    template = json.loads('{"a":' * 900 + "1" + "}" * 900)
    spec = {
        "template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}], "x": template}}
    }
    kept = copy.deepcopy(_slim({"metadata": {"name": "deep", "uid": "u"}, "spec": spec}))
    assert kept["spec"]["template"]["spec"]["containers"] == spec["template"]["spec"]["containers"]
    assert str(kept["spec"]["template"]["spec"]["x"]).count("a") == DEEPEST - 4


def test_a_pod_that_is_nobodys_any_more_is_gone(server: tuple[ApiServer, ApiCluster]) -> None:
    api, cluster = server
    api.apply(PODS, pod("ours"))
    until(lambda: (found := cluster.look()) is not None and list(found.pods) == [("chem", "ours")], cluster.look)
    api.apply(PODS, pod("ours", ownerReferences=[]))
    until(lambda: (found := cluster.look()) is not None and not found.pods, cluster.look)
