"""However a watch is disturbed, the same events come out."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.kubernetes import cluster as module
from collectors.kubernetes.cluster import Cluster
from collectors.kubernetes.follow import BLINK, Changed, Current, Item, Listed, Trouble, Unserved
from collectors.kubernetes.objects import Object
from collectors.kubernetes.settings import Settings
from collectors.readings import Collected
from tests.collectors.kubernetes.lives import Change, Held, asks_for_devices, histories, key, present
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


def apply(cluster: Cluster, log: list[Change], position: int, heard_at: int | None = None) -> list[Row]:
    """heard_at: later than it came to be, by a watch that catches up."""
    change = log[position]
    item = Changed(change.object, str(position + 1), change.deleted, late=heard_at is not None)
    return events(cluster.apply("pods", item, second(change.at if heard_at is None else heard_at)))


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


History = tuple[list[Change], dict[str, Held]]


def check(rows: list[Row], held: dict[str, Held], upto: int, estimated: bool) -> None:
    """Every allocation lasts as long as the scheduler had reserved it, as far as the log went by then; an estimated
    one, where that may be, began when it did and ended no later."""
    allocations = {row["allocation_id"] for row in rows}
    assert {each.split("/")[0] for each in allocations} <= held.keys()
    for allocation in allocations:
        truth = held[allocation.split("/")[0]]
        own = [row for row in rows if row["allocation_id"] == allocation]
        (start,) = [row["ts"] for row in own if row["event"] == "started"] or [None]
        (end,) = [row for row in own if row["event"] in ENDS] or [None]
        ends_by = truth.until is not None and truth.until <= upto
        assert (end is not None) == ends_by, (allocation, end, truth)
        if end is None or not ends_by:
            continue
        assert truth.until is not None
        if "estimated" in end.get("reason", ""):
            assert estimated
            assert end["ts"] <= second(truth.until), (allocation, end["ts"], truth)
            assert start is None or start <= end["ts"]
        else:
            assert end["event"] == truth.event, (allocation, end, truth)
            late = end["ts"] - second(truth.until)
            assert timedelta(0) <= late <= (BLINK if estimated else timedelta(0)), (allocation, end, truth)
        if start is not None:
            assert truth.since is not None and start == second(truth.since), (allocation, start, truth)


@settings(max_examples=40)
@given(histories())
def test_a_pod_holds_its_devices_from_its_binding_until_the_scheduler_may_give_them_away(history: History) -> None:
    log, held = history
    rows = undisturbed(log)
    assert max(Counter(map(key, rows)).values(), default=1) == 1
    assert {row["allocation_id"].split("/")[0] for row in rows} == held.keys()
    started = {row["allocation_id"].split("/")[0] for row in rows if row["event"] == "started"}
    assert started == {uid for uid, truth in held.items() if truth.since is not None}
    check(rows, held, log[-1].at, estimated=False)


@settings(max_examples=40)
@given(histories(), st.data())
def test_restarts_from_any_saved_state_change_nothing_that_a_stamp_tells(history: History, data: st.DataObject) -> None:
    log, held = history
    cluster, saved = Cluster(HERE), Saved()
    relist(cluster, log, 0, 1)
    saved.save(cluster)
    rows: list[Row] = []
    position = reached = 0
    kept, kept_at = saved.copy(), 0
    clock = 0
    while position < len(log):
        action = data.draw(st.sampled_from(["go on", "go on", "go on", "save", "restart"]))
        if action == "save":
            saved.save(cluster)
            kept, kept_at = saved.copy(), position
        elif action == "restart":
            cluster, saved, position = kept.cluster(), kept.copy(), kept_at
        late = position < reached
        clock = max(clock, log[position].at)
        reported = apply(cluster, log, position, clock if late else None)
        rows += [row for row in reported if not (late and key(row) in set(map(key, rows)))]
        position += 1
        reached = max(reached, position)
    check_told_again(rows, undisturbed(log), held)


def check_told_again(rows: list[Row], first: list[Row], held: dict[str, Held]) -> None:
    """What a restart tells again has the keys that it had, but for ends of which only the time of hearing tells: those
    are estimates, or of an interruption that makes no difference."""
    exact = [row for row in rows if "estimated" not in row.get("reason", "")]
    assert {key(row) for row in first} <= {key(row) for row in exact}
    assert max(Counter(map(key, exact)).values(), default=1) == 1
    known, ended = set(map(key, first)), {(row["allocation_id"], row["event"]) for row in first}
    for row in rows:
        if key(row) not in known:
            until = held[row["allocation_id"].split("/")[0]].until
            assert until is not None and row["event"] in ENDS, row
            if "estimated" in row.get("reason", ""):
                assert row["ts"] <= second(until)
            else:
                assert (row["allocation_id"], row["event"]) in ended
                assert timedelta(0) < row["ts"] - second(until) <= BLINK, row


def test_an_end_that_no_stamp_tells_is_heard_again_within_a_blink() -> None:
    """Its deletion takes time, so that only its object's end tells; the watch is killed before its state has that."""
    one = running(admitted(bound(pod("a"), 10), 15), 20)
    leaves = deleting(one, 100)
    log = [Change(20, one, False), Change(100, leaves, False), Change(101, leaves, True), Change(102, pod("b"), False)]
    cluster, saved = Cluster(HERE), Saved()
    relist(cluster, log, 0, 1)
    rows = [row for position in (0, 1) for row in apply(cluster, log, position)]
    saved.save(cluster)
    rows += [row for position in (2, 3) for row in apply(cluster, log, position)]
    again = saved.cluster()
    rows += [row for row in apply(again, log, 2, 102) if key(row) not in set(map(key, rows))]
    ends = [row["ts"] for row in rows if row["event"] in ENDS]
    assert ends == [second(101), second(102)]
    check_told_again(rows, undisturbed(log), {"a": Held(10, 101, "cancelled"), "b": Held(None, None, "")})


@settings(max_examples=40)
@given(histories(), st.data())
def test_after_a_gap_what_no_stamp_tells_is_estimated_and_never_later_than_it_was(
    history: History, data: st.DataObject
) -> None:
    """The watch is away now and then: it catches up, or has been forgotten and lists again."""
    log, held = history
    cluster, saved = Cluster(HERE), Saved()
    rows = relist(cluster, log, 0, 1)
    position = 0
    missed: set[str] = set()
    while position < len(log):
        action = data.draw(st.sampled_from(["live", "live", "catch up", "list"]))
        if action == "live":
            rows += apply(cluster, log, position)
            position += 1
            continue
        if data.draw(st.booleans()):
            saved.save(cluster)
            cluster = saved.cluster()
        upto = data.draw(st.integers(position + 1, len(log)))
        if action == "catch up":
            for each in range(position, upto):
                rows += apply(cluster, log, each, log[upto - 1].at)
            cluster.apply("pods", Current(str(upto)), second(log[upto - 1].at))
        else:
            known = {row["allocation_id"].split("/")[0] for row in rows} | {
                uid for pod_ in present(log, upto) if (uid := pod_["metadata"]["uid"])
            }
            missed |= {change.uid for change in log[position:upto]} - known
            rows += relist(cluster, log, upto, data.draw(st.integers(1, 3)))
        position = upto
    assert max(Counter(map(key, rows)).values(), default=1) == 1
    there = {change.uid for change in log if asks_for_devices(change.object)} - missed
    assert {row["allocation_id"].split("/")[0] for row in rows} == there
    check(rows, held, log[-1].at, estimated=True)


@settings(max_examples=40)
@given(histories(), st.integers(0, 20))
def test_a_second_watcher_that_comes_later_tells_the_same_of_what_is_still_there(history: History, late: int) -> None:
    log, _ = history
    upto = min(late, len(log))
    second_watcher = Cluster(HERE)
    rows = relist(second_watcher, log, upto, 2)
    for position in range(upto, len(log)):
        rows += apply(second_watcher, log, position)
    exact = {key(row) for row in rows if "estimated" not in row.get("reason", "")}
    first = {key(row) for row in undisturbed(log)}
    assert exact <= first
    seen = {pod_["metadata"]["uid"] for pod_ in present(log, upto)} | {change.uid for change in log[upto:]}
    ended = {row["allocation_id"] for row in rows if row["event"] in ENDS}
    assert {row[1] for row in first if row[2] in ENDS and row[1].split("/")[0] in seen} <= ended


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


def test_a_node_that_is_deleted_and_comes_back_has_its_devices_again() -> None:
    """As found: `kubectl delete node`, and the kubelet registers it anew; its agent noticed nothing and told nothing:
    its GPUs stayed removed."""
    agent = {"device_id": "GPU-a", "model": "A100", "units": 1, "node": "n1", "state": "available", "ts": stamp(-50)}

    def after(stock: dict[str, list[Row]], saved: bool = False, **back: Any) -> list[tuple[str, str, datetime]]:
        cluster, rows = Cluster(HERE), []
        cluster.take_stock({"n1": [agent]})
        step(cluster, "nodes", change(node()), 1)
        rows += step(cluster, "nodes", change(node(), deleted=True), 300).rows["devices"]
        if saved:
            state = Saved()
            state.save(cluster)
            cluster = state.cluster()
        cluster.take_stock(stock)
        step(cluster, "nodes", Listed([], "5", True, True), 310)  # it is still gone
        for again in (320, 330):
            rows += step(cluster, "nodes", change(node(at=315, **back)), again).rows.get("devices", [])
        return [(row["device_id"], row["state"], row["ts"]) for row in rows]

    removed, back = ("GPU-a", "removed", second(300)), ("GPU-a", "available", second(315))
    assert after({}) == after({}, saved=True) == after({"n1": [agent]}) == [removed, back]
    assert after({}, machine="another") == after({}, machine="") == [removed]
    assert after({"n2": [{**agent, "node": "n2"}]}) == [removed]  # the GPU is in another node by now
    assert after({"n1": [{**agent, "ts": stamp(312)}]}) == [removed]  # its agent has told of it again


def test_nodes_that_never_come_back_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GONE", 2)
    cluster = Cluster(HERE)
    names = [f"n{number}" for number in range(5)]
    row = {"model": "A100", "units": 1, "state": "available"}
    cluster.take_stock({name: [{**row, "device_id": f"GPU-{name}", "node": name}] for name in names})
    for name in names:
        step(cluster, "nodes", change(node(name)), 1)
        step(cluster, "nodes", change(node(name), deleted=True), 300)
    cluster.take_stock({})
    back = [step(cluster, "nodes", change(node(name, at=315)), 320).rows.get("devices", []) for name in names]
    assert [len(rows) for rows in back] == [0, 0, 0, 1, 1]


def test_a_claim_seen_after_its_pod_lets_the_pod_be_reported() -> None:
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
        f"the watch was interrupted from {stamp(70)} to {stamp(600)}: 1 pods ended unseen; "
        "what was both bound and gone in between is not known"
    )
    assert len(cluster) == 0


def test_a_restarted_list_counts_from_the_start() -> None:
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
