"""However a watch is disturbed, the same events come out."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.kubernetes.cluster import Cluster
from collectors.kubernetes.follow import Changed, Current, Item, Listed, Trouble, Unserved
from collectors.kubernetes.objects import Object
from collectors.kubernetes.settings import Settings
from collectors.readings import Collected
from tests.collectors.kubernetes.lives import Change, histories, key, present
from tests.collectors.kubernetes.make import admitted, bound, deleting, ended, node, pod, running, second, stamp
from tests.collectors.kubernetes.test_claims import GPU, claim, claiming, slice_

HERE = Settings(cluster="c1")
ENDS = ("preempted", "finished", "failed", "cancelled", "rejected")
Row = dict[str, Any]


class Saved:
    """What a state file holds, as JSON."""

    def __init__(self) -> None:
        self.version, self.seen_at = "", second(0)
        self.objects: dict[str, dict[str, str]] = {"pod": {}, "waiting": {}, "node": {}}

    def save(self, cluster: Cluster) -> None:
        self.version, self.seen_at = cluster.version, cluster.seen_at or second(0)
        for kind, name, plain in cluster.changes():
            if plain is None:
                self.objects[kind].pop(name, None)
            else:
                self.objects[kind][name] = json.dumps(plain)

    def copy(self) -> Saved:
        again = Saved()
        again.version, again.seen_at = self.version, self.seen_at
        again.objects = {kind: dict(found) for kind, found in self.objects.items()}
        return again

    def cluster(self) -> Cluster:
        found = Cluster(HERE)
        plain = {kind: {name: json.loads(text) for name, text in each.items()} for kind, each in self.objects.items()}
        found.restore(self.version, self.seen_at, plain["pod"], plain["waiting"], plain["node"])
        return found


def events(collected: Collected) -> list[Row]:
    return collected.rows.get("events", [])


def apply(cluster: Cluster, log: list[Change], position: int) -> list[Row]:
    change = log[position]
    item = Changed(change.object, str(position + 1), change.deleted)
    return events(cluster.apply("pods", item, second(change.at)))


def relist(cluster: Cluster, log: list[Change], upto: int, pages: int) -> list[Row]:
    objects = present(log, upto)
    at = second(log[upto - 1].at if upto else 0)
    size = -(-len(objects) // pages) or 1
    cuts = [objects[start : start + size] for start in range(0, len(objects), size)] or [[]]
    rows: list[Row] = []
    for number, part in enumerate(cuts):
        final = number == len(cuts) - 1
        item = Listed(part, str(upto) if final else "", number == 0, final)
        rows += events(cluster.apply("pods", item, at))
    return rows


def undisturbed(log: list[Change]) -> list[Row]:
    cluster = Cluster(HERE)
    rows = relist(cluster, log, 0, 1)
    for position in range(len(log)):
        rows += apply(cluster, log, position)
    return rows


def whole(rows: list[Row]) -> set[str]:
    return {json.dumps(row, sort_keys=True, default=str) for row in rows}


@settings(max_examples=25)
@given(histories())
def test_an_undisturbed_watch_tells_each_event_once_and_each_end_at_most_once(log: list[Change]) -> None:
    rows = undisturbed(log)
    assert max(Counter(map(key, rows)).values(), default=1) == 1
    ends = Counter(row["allocation_id"] for row in rows if row["event"] in ENDS)
    assert max(ends.values(), default=1) == 1
    for row in rows:
        assert row["ts"] <= second(max(change.at for change in log))
    over = {change.uid for change in log if change.deleted and "cpu" not in str(change.object["spec"])}
    assert over <= {row["workload_id"] for row in rows if row["event"] in ENDS}


@settings(max_examples=40)
@given(histories(), st.data())
def test_repeated_changes_and_restarts_from_any_saved_state_change_nothing(
    log: list[Change], data: st.DataObject
) -> None:
    cluster, saved = Cluster(HERE), Saved()
    relist(cluster, log, 0, 1)
    saved.save(cluster)
    kept, kept_at = saved.copy(), 0
    rows: list[Row] = []
    position = 0
    while position < len(log):
        action = data.draw(st.sampled_from(["go on", "go on", "go on", "repeat", "save", "restart"]))
        if action == "repeat":
            # A server that starts a watch too early repeats changes, among them of pods that are gone by now.
            for again in range(max(0, position - data.draw(st.integers(1, 4))), position):
                rows += apply(cluster, log, again)
        elif action == "save":
            saved.save(cluster)
            kept, kept_at = saved.copy(), position
        elif action == "restart":
            cluster, saved, position = kept.cluster(), kept.copy(), kept_at
        rows += apply(cluster, log, position)
        position += 1
    assert whole(rows) == whole(undisturbed(log))


@settings(max_examples=40)
@given(histories(), st.data())
def test_after_a_lost_watch_only_ends_that_nobody_saw_are_estimated(log: list[Change], data: st.DataObject) -> None:
    cluster, saved = Cluster(HERE), Saved()
    rows = relist(cluster, log, 0, 1)
    position, lost = 0, set()
    while position < len(log):
        if data.draw(st.booleans()):
            rows += apply(cluster, log, position)
            position += 1
            continue
        upto = data.draw(st.integers(position + 1, len(log)))
        if data.draw(st.booleans()):
            saved.save(cluster)
            cluster = saved.cluster()
        before = {row["allocation_id"] for row in rows if row["event"] in ENDS}
        gone = {change.uid for change in log[position:upto] if change.deleted}
        lost |= {uid for uid in gone if uid not in before}
        rows += relist(cluster, log, upto, data.draw(st.integers(1, 3)))
        position = upto
    expected = undisturbed(log)
    unplaced = ("Unschedulable",)

    def keys(of: list[Row], wanted: bool) -> set[tuple[Any, ...]]:
        return {key(row) for row in of if (row["workload_id"] in lost) == wanted and row.get("reason") not in unplaced}

    assert keys(rows, False) == keys(expected, False)
    assert max(Counter(map(key, rows)).values(), default=1) == 1
    told = {row["allocation_id"] for row in rows if row["workload_id"] in lost}
    ends = [row for row in rows if row["workload_id"] in lost and row["event"] in ENDS]
    assert sorted(row["allocation_id"] for row in ends) == sorted(told)
    exact = {key(row) for row in expected}
    for row in ends:
        assert "estimated" in row["reason"] or key(row) in exact
        starts = [each["ts"] for each in rows if each["allocation_id"] == row["allocation_id"] and each is not row]
        assert max(each for each in starts if each) <= row["ts"] or row["event"] == "cancelled"


@settings(max_examples=25)
@given(histories(), st.integers(0, 20))
def test_a_second_watcher_that_comes_later_tells_the_same_of_what_is_still_there(log: list[Change], late: int) -> None:
    upto = min(late, len(log))
    second_watcher = Cluster(HERE)
    rows = relist(second_watcher, log, upto, 2)
    for position in range(upto, len(log)):
        rows += apply(second_watcher, log, position)
    first = {key(row) for row in undisturbed(log)}
    assert {key(row) for row in rows} <= first
    seen = {uid for pod_ in present(log, upto) if (uid := pod_["metadata"]["uid"])} | {c.uid for c in log[upto:]}
    missing = {row for row in first - {key(row) for row in rows} if row[2] in ENDS and row[1].split("/")[0] in seen}
    assert missing == set()


def step(cluster: Cluster, stream: Any, item: Item, at: float) -> Collected:
    return cluster.apply(stream, item, second(at))


def change(object_: Object, version: int = 1, deleted: bool = False) -> Changed:
    return Changed(object_, str(version), deleted)


def test_a_cordoned_node_is_unavailable_once_its_last_pod_has_ended() -> None:
    agents = {"n1": [{"device_id": "GPU-a", "model": "A100", "units": 1, "node": "n1", "state": "available"}]}
    cluster = Cluster(HERE)
    cluster.take_stock(agents)
    runs = running(admitted(bound(pod("u"), 5), 6), 10)
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": stamp(50)}
    assert step(cluster, "nodes", change(node()), 1).rows == {}
    step(cluster, "pods", change(runs), 11)
    assert step(cluster, "nodes", change(node(spec={"taints": [taint]})), 60).rows == {}
    done = step(cluster, "pods", change(ended(runs, 100)), 101)
    assert [(row["state"], row["ts"]) for row in done.rows["devices"]] == [("unavailable", second(100))]
    gone = step(cluster, "nodes", change(node(), deleted=True), 300)
    assert [(row["state"], row["ts"]) for row in gone.rows["devices"]] == [("removed", second(300))]


def test_a_claim_that_is_seen_after_its_pod_lets_the_pod_be_told() -> None:
    cluster = Cluster(HERE)
    runs = running(admitted(bound(claiming("one"), 5), 6), 10)
    assert step(cluster, "pods", change(runs), 11).rows == {}
    saved = Saved()
    saved.save(cluster)
    cluster = saved.cluster()  # waiting survives a restart
    assert step(cluster, "claims", change(claim("one", ["gpu-0"])), 12).rows == {}
    rows = step(cluster, "slices", Listed([slice_([GPU])], "5", True, True), 13).rows
    assert [(row["event"], row.get("device_id")) for row in rows["events"]] == [
        ("submitted", None),
        ("started", "GPU-aa"),
    ]
    assert step(cluster, "slices", change(slice_([GPU])), 14).rows == {}
    published = step(cluster, "nodes", change(node()), 15).rows["devices"]
    assert [(row["device_id"], row["model"], row["ts"]) for row in published] == [
        ("GPU-aa", "NVIDIA H100 80GB HBM3", second(-100))
    ]


def test_what_cannot_be_read_or_reached_is_a_finding_once() -> None:
    cluster = Cluster(HERE)
    refused = Unserved("resourceclaims is forbidden", forbidden=True)
    assert [row["finding"] for row in step(cluster, "claims", refused, 1).rows["findings"]] == ["no_permission"]
    assert step(cluster, "claims", refused, 2).rows == {}
    assert step(cluster, "workloads", Unserved("not found", forbidden=False), 2).rows == {}
    assert step(cluster, "pods", Trouble("refused", 4), 3).rows == {}
    assert [r["finding"] for r in step(cluster, "pods", Trouble("refused", 5), 4).rows["findings"]] == [
        "source_unreachable"
    ]
    assert step(cluster, "pods", Trouble("refused", 6), 5).rows == {}


def test_pods_that_ended_unseen_are_a_finding_with_the_gap() -> None:
    cluster = Cluster(HERE)
    runs = running(admitted(bound(pod("u"), 5), 6), 10)
    step(cluster, "pods", change(runs), 11)
    step(cluster, "pods", Current("9"), 70)
    rows = step(cluster, "pods", Listed([], "20", True, True), 600).rows
    assert [(row["event"], row["ts"]) for row in rows["events"]] == [("cancelled", second(70))]
    assert rows["findings"][0]["message"] == (
        f"the watch was interrupted from {stamp(70)} to {stamp(600)}: 1 pods ended unseen"
    )
    assert len(cluster) == 0


def test_a_list_that_is_begun_again_counts_anew() -> None:
    cluster = Cluster(HERE)
    runs = running(admitted(bound(pod("u"), 5), 6), 10)
    step(cluster, "pods", Listed([runs], "", first=True, last=False), 11)
    rows = step(cluster, "pods", Listed([], "20", first=True, last=True), 60).rows
    assert [row["event"] for row in rows["events"]] == ["cancelled"]


def test_what_is_remembered_does_not_grow_with_what_is_over() -> None:
    cluster = Cluster(HERE)
    for number in range(200):
        runs = running(admitted(bound(pod(f"u{number}"), 5), 6), 10)
        step(cluster, "pods", change(runs), 11)
        step(cluster, "pods", change(deleting(runs, 20, 0), deleted=True), 21)
    assert len(cluster) == 0
    assert all(plain is None for _, _, plain in cluster.changes())
