"""The scheduler's settings: what they become, what is refused and how that is said, reading them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cycle.core import Core
from scheduler.model import Job, Request, Start
from scheduler.placement.cluster import Cluster
from scheduler.settings import Settings, SettingsError, load_settings, parse_settings
from scheduler.setup import setup_of

WHOLE = """
pools:
  - {name: a100, nodes: 4, devices: 8, model: A100, units: 7, geometry: a100-40gb, nodes_in_domain: [4, 2]}
  - {name: t4, nodes: 2, devices: 4, model: T4, cpu_milli: 32000, labels: {zone: east}, taints: [spot]}
tenants:
  - {name: research, guaranteed: 100, borrowing_limit: 20}
  - {name: vision, parent: research, guaranteed: 24, weight: 2}
  - {name: vision, pool: t4, guaranteed: 4}
queues:
  - {name: batch, policy: fair_share, half_life: 7d, wait_bound: 12h, min_run_time: 10m}
  - {name: urgent, policy: priority, priority: 5, maximum: 16}
reservations:
  - {name: course, nodes: [t4-1], start: 2026-12-01T08:00Z, end: 2026-12-01T10:00+01:00, tenants: [vision]}
  - {name: works, nodes: [a100-0, a100-1], start: 2026-12-02T08:00Z, end: 2026-12-02T10:00Z, kind: maintenance}
policies: {placement: fgd, backfill: conservative, backfill_interval: 30s, most_preemptions: 3, prices: {A100: 2}}
"""


def read(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path)


def test_settings_become_nodes_tenants_queues_and_policies(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    nodes = found.nodes()
    assert [node.name for node in nodes] == ["a100-0", "a100-1", "a100-2", "a100-3", "t4-0", "t4-1"]
    assert nodes[3].topology == ("a100-level0-0", "a100-level1-1") and nodes[3].devices[7].units == 7
    assert nodes[4].labels == {"zone": "east"} and nodes[4].taints == {"spot"} and nodes[4].cpu_milli == 32000
    assert [(t.name, t.pool, t.guaranteed, t.weight) for t in found.build_tenants()][1:] == [
        ("vision", "", 24, 2.0),
        ("vision", "t4", 4, 1.0),
    ]
    batch, urgent = found.build_queues()
    assert (batch.half_life, batch.wait_bound, batch.min_run_time) == (604800.0, 43200.0, 600.0)
    assert (urgent.policy, urgent.maximum) == ("priority", 16)
    course, works = found.build_reservations(nodes)
    assert course.nodes == {5} and course.end - course.start == 3600 and course.tenants == {"vision"}
    assert works.kind == "maintenance" and works.nodes == {0, 1}
    policies = found.policies.build()
    assert (policies.backfill, policies.backfill_seconds, policies.most_preemptions) == (None, 30.0, 3)
    assert Cluster(nodes).geometries[0] is not None


def test_hosts_name_nodes_devices_and_mig_instances_and_who_starts_processes() -> None:
    found = parse_settings({"pools": [
        {"name": "a", "nodes": 1, "devices": 1},
        {"name": "b", "model": "H100", "units": 7, "geometry": "h100-80gb", "launcher": "slurm",
         "hosts": {"gpu-2": ["GPU-x", "GPU-y"], "gpu-1": []}, "instances": {"GPU-y": {"1g.10gb@0": "MIG-z"}}},
    ]})  # fmt: skip
    nodes = found.nodes()
    assert [(node.name, node.named, node.launcher, node.pool) for node in nodes] == [
        ("a-0", False, "", "a"),
        ("gpu-2", True, "slurm", "b"),
        ("gpu-1", True, "slurm", "b"),
    ]
    assert [(device.device_id, device.units, device.instances) for device in nodes[1].devices] == [
        ("GPU-x", 7, ()),
        ("GPU-y", 7, (("1g.10gb@0", "MIG-z"),)),
    ]
    assert parse_settings(found.model_dump(mode="json")).nodes() == nodes, "as the log keeps them"


def test_nothing_is_needed() -> None:
    empty = parse_settings({})
    assert empty.nodes() == () and empty.policies.build().backfill == 1


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("queues: [{name: q, polcy: fifo}]", "queues[0].polcy: unknown key"),
        ("queues: [{name: q, policy: fast}]", "queues[0].policy: found 'fast'; Input should be 'fifo', 'priority'"),
        ("queues: [{name: q, wait_bound: soon}]", "expected seconds, or text such as 90s, 15m, 12h or 7d"),
        ("queues: [{name: q}, {name: q}]", "queues: q is named twice"),
        ("queues: [{name: q, guaranteed: 9, maximum: 3}]", "queue q: maximum 3 is below guaranteed 9"),
        ("queues: [{name: q, half_life: 1d}]", "queue q: half_life is for policy fair_share, not fifo"),
        ("queues: [{name: a, parent: b}]", "queue 'a' has an unknown parent 'b'"),
        ("queues: [{name: a, parent: b}, {name: b, parent: a}]", "queue 'a' is its own ancestor: a < b < a"),
        (
            "queues: [{name: a, guaranteed: 4}, {name: b, parent: a, guaranteed: 3}, {name: c, parent: a,"
            " guaranteed: 2}]",
            "queue a: its children are guaranteed 5 units, and it 4",
        ),
        (
            "queues: [{name: a, maximum: 4}, {name: b, parent: a, guaranteed: 5}]",
            "queue a: its children are guaranteed 5 units, and its maximum is 4",
        ),
        ("queues: [{name: a, maximum: 4}, {name: b, parent: a, maximum: 5}]", "maximum 5 is above its parent's, 4"),
        ("queues: [{name: a, wait_bound: 1h}, {name: b, parent: a}]", "queue a: wait_bound is for queues of jobs"),
        (
            "queues: [{name: a, policy: capacity}, {name: b, parent: a}]",
            "queue a: policy capacity is for queues of jobs",
        ),
        (
            "queues: [{name: a}, {name: b, parent: a, weight: 2}]",
            "queue b: weight counts where policy of its parent a is fair_share, and it is fifo",
        ),
        ("queues: [{name: a, weight: 2}]", "weight counts where between_queues is fair_share, and it is priority"),
        ("queues: [{name: a, preempts: [c]}]", "queue a: preempts: no queue c is declared"),
        (
            "queues: [{name: a, preempts: [c]}, {name: c}]\npolicies: {between_queues: fair_share}",
            "queue a: preempts: priority does not reach c, since the site shares by fairness",
        ),
        (
            "queues: [{name: a}, {name: b, parent: a}]\n"
            "services: [{name: s, tenant: t, queue: a, request: {devices: 1}}]",
            "service s: queue a is a parent, and holds no jobs",
        ),
        ("policies: {preempt_by_priority: everybody}", "policies.preempt_by_priority: found 'everybody'"),
        ("policies: {priority_difference: 0}", "policies.priority_difference"),
        ("tenants: [{name: a, parent: b}]", "tenant 'a' has an unknown parent 'b'"),
        ("tenants: [{name: a, parent: b}, {name: b, parent: a}]", "tenant 'a' is its own ancestor: a < b < a"),
        ("tenants: [{name: a}, {name: a}]", "tenant 'a' is named twice"),
        ("tenants: [{name: a, guaranteed: -1}]", "tenants[0].guaranteed: found -1;"),
        ("tenants: [{name: a, guaranteed: 9, limit: 3}]", "tenant a: limit 3 is below guaranteed 9"),
        (
            "pools: [{name: p, nodes: 2, devices: 4}]\ntenants: [{name: a, guaranteed: 5}, {name: b, guaranteed: 4}]",
            "tenants: 9 units are guaranteed, and there are 8",
        ),
        (
            "pools: [{name: p, nodes: 2}, {name: r, nodes: 1}]\ntenants: [{name: a, pool: r, guaranteed: 9}]",
            "tenants of pool r: 9 units are guaranteed, and there are 8",
        ),
        (
            "pools: [{name: p, nodes: 2, devices: 4, units: 2}]\nqueues: [{name: q, guaranteed: 17}]",
            "queues: 17 units are guaranteed, and there are 16",
        ),
        ("pools: [{name: p, nodes: 1}]\ntenants: [{name: a, pool: r}]", "pools declares no such pool"),
        ("reservations: [{name: r, nodes: [n], start: 2026-12-01, end: 2026-12-02}]", "reservations[0].start"),
        (
            "reservations: [{name: r, nodes: [n], start: 2026-12-02T00:00Z, end: 2026-12-01T00:00Z}]",
            "reservation r: end is not after start",
        ),
        (
            "reservations: [{name: r, nodes: [n], start: 2026-12-01T00:00Z, end: 2026-12-02T00:00Z}]",
            "a reservation names tenants, maintenance names none",
        ),
        ("pools: [{name: a}]", "say nodes, how many there are, or hosts"),
        ("pools: [{name: a, nodes: 2, hosts: {x: [G]}}]", "say nodes, how many there are, or hosts"),
        ("pools: [{name: a, hosts: {x: [G], y: [G]}}]", "pools: devices: G is named twice"),
        ("pools: [{name: a, nodes: 1}, {name: b, hosts: {a-0: [G]}}]", "pools: nodes: a-0 is named twice"),
        ("pools: [{name: a, hosts: {x: [G]}, instances: {H: {1g.5gb@0: M}}}]", "no device H is among hosts"),
        ("pools: [{name: a, nodes: 1, launcher: docker}]", "launcher"),
        ("pools: [{name: a, nodes: 2, reserved: 10%}]", "pool a: reserved says how much, reserved_for whom"),
        ("pools: [{name: a, nodes: 2, reserved_for: {priority: 3}}]", "say both, or neither"),
        ("pools: [{name: a, nodes: 2, reserved: ten, reserved_for: {priority: 3}}]", "pools[0].reserved"),
        ("pools: [{name: a, nodes: 2, reserved: 100%, reserved_for: {priority: 3}}]", "leaves nothing of 16 units"),
        (
            "pools: [{name: a, nodes: 2, reserved: 4, reserved_for: {queues: [q]}}]",
            "reserved_for: no queue q is declared",
        ),
        ("pools: [{name: a, nodes: 2, reserved: 4, reserved_for: {tenants: [t]}}]", "no tenant t is declared"),
        (
            "pools: [{name: a, nodes: 2, reserved: 10%, reserved_for: {priority: 3}}]\n"
            "tenants: [{name: t, guaranteed: 15}]",
            "tenants: 15 units are guaranteed, and there are 14 beside 2 reserved",
        ),
        ("pools: [{name: a, hosts: {x: [G, H]}}]\ntenants: [{name: t, guaranteed: 3}]", "and there are 2"),
        ("pools: [{name: a, nodes: 2, dedicated: true}]", "dedicated is for those in reserved_for"),
        ("pools: [{name: a, nodes: 2, dedicated: true, reserved: 4, reserved_for: {priority: 3}}]", "without reserved"),
        ("pools: [{name: a, hosts: {x: [G]}, left: [x]}]", "nodes leave pools that come from a cluster"),
        ("pools: [{name: a, hosts: {x: [G]}, host_models: {y: H100}}]", "host_models: y is not among hosts"),
        ("nodes_vary: true", "is for pools that come from a cluster"),
        ("policies: {backfill: sometimes}", "policies.backfill"),
        ("policies: {placement: luck}", "policies.placement"),
        ("- a", "not settings of the scheduler"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(tmp_path: Path, yaml: str, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, yaml)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_queues_below_queues_and_scopes_of_priority_survive_being_written_down() -> None:
    """As the log keeps them; true and false are what was said before there were scopes."""
    queues = [
        {"name": "ml", "policy": "fair_share", "guaranteed": 8, "maximum": 16},
        {"name": "train", "parent": "ml", "weight": 3, "guaranteed": 8, "maximum": 16},
        {"name": "chat", "parent": "ml", "preempts": "all"},
        {"name": "urgent", "preempts": ["ml"]},
    ]
    found = parse_settings({"queues": queues, "policies": {"preempt_by_priority": True, "priority_difference": 2}})
    assert parse_settings(found.model_dump(mode="json")) == found
    ml, train, chat, urgent = found.build_queues()
    assert (train.parent, train.weight, ml.weight) == ("ml", 3.0, 1.0)
    assert (ml.preempts, chat.preempts, urgent.preempts) == (None, "all", ("ml",))
    policies = found.policies.build()
    assert (policies.preempt_by_priority, policies.priority_difference) == ("queue", 2)
    assert parse_settings({"policies": {"preempt_by_priority": False}}).policies.preempt_by_priority == "never"


def test_what_a_pool_keeps_is_a_policy_that_can_change_while_its_nodes_stay() -> None:
    pools = {"name": "p", "nodes": 4, "reserved": "12.5%", "reserved_for": {"queues": ["now"], "priority": 3}}
    found = parse_settings({"pools": [pools], "queues": [{"name": "now"}]})
    assert parse_settings(found.model_dump(mode="json")) == found
    (reserve,) = found.build_policies().reserves
    assert (reserve.pool, reserve.rule.of(32, 1), reserve.priority, reserve.queues) == ("p", 4, 3, {"now"})
    assert found.nodes() == parse_settings({"pools": [{"name": "p", "nodes": 4}]}).nodes()


def test_a_reservation_of_a_node_that_is_not_there_is_refused() -> None:
    reservation = {"name": "r", "nodes": ["n7"], "start": "2026-12-01T00:00Z", "end": "2026-12-02T00:00Z"}
    found = parse_settings({"reservations": [reservation | {"kind": "maintenance"}]})
    with pytest.raises(SettingsError, match="reservation r: node n7 is not there"):
        found.build_reservations(())


def test_reloaded_settings_hold_for_a_state_that_goes_on(tmp_path: Path) -> None:
    before = read(tmp_path, "pools: [{name: p, nodes: 1, devices: 8}]\ntenants: [{name: a, limit: 2}]")
    state = Core(Cluster(before.nodes()), before.build_tenants(), before.build_queues(), before.policies.build())
    for number in range(4):
        state.submit(Job(f"{number}", "a", "q", Request(1), float(number)), 1)
    for action in state.plan(2).actions:
        state.apply(action, 2)
    assert len(state.running) == 2
    read(tmp_path, "tenants: [{name: a, limit: 3}]\nqueues: [{name: q}]").apply(state, 3)
    assert [action.job_id for action in state.plan(4).actions] == ["2"]
    assert len(state.pending) == 2 and state.accounts.tenants[""]["a"].held == 2


def test_measured_speeds_decide_beside_whom_a_share_is_placed() -> None:
    """As `gpuledger interference speeds --format json` prints them; they survive being written down and read again."""
    printed = [
        {"class": "train", "beside": "chat", "speed": 0.5, "interference": 1.0, "windows": 9, "pairs": 1},
        {"class": "chat", "beside": "train", "speed": 0.9, "interference": 0.1, "windows": 9, "pairs": 1},
    ]
    pools = [{"name": "p", "nodes": 2, "devices": 1, "units": 10}]
    read = parse_settings({"pools": pools, "queues": [{"name": "q"}], "policies": {"speeds": printed}})
    again = parse_settings(read.model_dump(mode="json"))
    assert again == read
    state = setup_of("a", again).core([], 0.0, explain=True)
    for name, units in (("chat", 2), ("batch", 1)):
        request = Request(units=units, workload_class=name)
        state.submit(Job(name, "t", "q", request, 0.0, priority=0), 0.0)
        for action in state.plan(0.0).actions:
            state.apply(action, 0.0)
    state.submit(Job("train", "t", "q", Request(units=2, workload_class="train"), 1.0), 1.0)
    (start,) = state.plan(1.0).actions
    assert isinstance(start, Start)
    chat = state.running["chat"].grants[0].node
    assert start.grants[0].node != chat
