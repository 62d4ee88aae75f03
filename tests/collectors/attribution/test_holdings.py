"""What the kubelet gave out becomes each pod's share of each place; what cannot be said stays unsaid."""

from __future__ import annotations

from fractions import Fraction

from collectors.attribution.kubelet import Pod
from collectors.attribution.places import Allocation, Allocations, Inventory, Place
from collectors.attribution.podresources.client import ClaimedDevice, Container, GivenDevice, Snapshot
from collectors.attribution.podresources.holdings import allocations
from collectors.readings import DeviceReading

GPU = "GPU-5f0a1c22-90bb-4a1e-8d3c-2b7e6a9f0d11"
OTHER = "GPU-77777777-90bb-4a1e-8d3c-2b7e6a9f0d11"
MIG = "MIG-0c1d2e3f-1111-5222-8333-444455556666"
INVENTORY = Inventory(
    [DeviceReading(GPU, index=0, vendor="nvidia"), DeviceReading(OTHER, index=1), DeviceReading(OTHER, MIG, index=1)]
)
PODS = [Pod("uid-train", "ml", "train-0", "Running"), Pod("uid-serve", "web", "serve-0", "Running")]
TRAIN, SERVE = Container("ml", "train-0", "main"), Container("web", "serve-0", "main")


def held(
    *devices: GivenDevice, offered: dict[str, tuple[str, ...]] | None = None, pods: list[Pod] | None = None
) -> Allocations:
    return allocations(Snapshot(devices, offered=offered), PODS if pods is None else pods, INVENTORY)[0]


def gpu(container: Container, id: str = GPU, resource: str = "nvidia.com/gpu") -> GivenDevice:
    return GivenDevice(container, resource, id)


def test_a_whole_device_is_held_whole() -> None:
    known = held(gpu(TRAIN))
    assert known.allocations == (Allocation("uid-train", Place(GPU), 1, 1, "nvidia.com/gpu"),)
    assert known.allocations[0].share == 1
    assert known.complete_for == {"pod"}
    assert known.names["uid-train"] == "ml/train-0"


def test_two_replicas_are_one_device_and_two_shares_of_what_is_offered() -> None:
    offered = {"nvidia.com/gpu": (*(f"{GPU}::{n}" for n in range(4)), OTHER)}
    known = held(gpu(TRAIN, f"{GPU}::0"), gpu(TRAIN, f"{GPU}::2"), gpu(SERVE, f"{GPU}::1"), offered=offered)
    train, serve = sorted(known.allocations, key=lambda one: -one.held)
    assert (train.workload_id, train.place, train.share) == ("uid-train", Place(GPU), Fraction(2, 4))
    assert (serve.workload_id, serve.place, serve.share) == ("uid-serve", Place(GPU), Fraction(1, 4))


def test_the_same_replica_in_two_containers_of_a_pod_counts_once() -> None:
    sidecar = Container("ml", "train-0", "init")
    offered = {"nvidia.com/gpu": (f"{GPU}::0", f"{GPU}::1")}
    known = held(gpu(TRAIN, f"{GPU}::0"), gpu(sidecar, f"{GPU}::0"), offered=offered)
    assert [one.share for one in known.allocations] == [Fraction(1, 2)]


def test_a_share_is_unknown_without_the_number_of_shares_on_offer() -> None:
    known = held(gpu(TRAIN, f"{GPU}::0"))
    assert known.allocations[0].share is None


def test_more_held_than_healthy_devices_offer_is_no_more_than_all() -> None:
    known = held(gpu(TRAIN, f"{GPU}::0"), gpu(TRAIN, f"{GPU}::1"), offered={"nvidia.com/gpu": (f"{GPU}::0",)})
    assert known.allocations[0].share == 1


def test_an_instance_is_a_place_of_its_own() -> None:
    known = held(gpu(SERVE, MIG, "nvidia.com/mig-1g.10gb"))
    assert known.allocations == (Allocation("uid-serve", Place(OTHER, MIG), 1, 1, "nvidia.com/mig-1g.10gb"),)
    assert known.covers("uid-serve", Place(OTHER, MIG))
    assert known.covers("uid-serve", Place(OTHER))  # as the driver may list its processes there
    assert not known.covers("uid-serve", Place(OTHER, "MIG-another"))
    assert not known.covers("uid-train", Place(OTHER, MIG))


def test_pods_that_have_ended_hold_nothing() -> None:
    ended = [Pod("uid-train", "ml", "train-0", "Succeeded")]
    known, dropped = allocations(Snapshot((gpu(TRAIN),)), ended, INVENTORY)
    assert known.allocations == ()
    assert dropped == {"pod_has_ended": 1}


def test_a_name_used_again_is_its_living_bearers() -> None:
    pods = [Pod("uid-old", "ml", "train-0", "Failed"), Pod("uid-new", "ml", "train-0", "Running")]
    assert [one.workload_id for one in held(gpu(TRAIN), pods=pods).allocations] == ["uid-new"]


def test_a_name_with_two_living_bearers_makes_its_device_contested() -> None:
    pods = [Pod("uid-old", "ml", "train-0", "Running"), Pod("uid-new", "ml", "train-0", "Pending")]
    known, dropped = allocations(Snapshot((gpu(TRAIN),)), pods, INVENTORY)
    assert known.allocations == ()
    assert dropped == {"pod_without_uid": 1}
    assert known.is_contested(Place(GPU))
    assert not known.is_contested(Place(OTHER))
    assert known.complete_for == {"pod"}


def test_an_unknown_pod_with_an_unknown_device_makes_breaches_undecidable() -> None:
    known = held(gpu(Container("x", "stranger", "c"), "GPU-99999999-90bb-4a1e-8d3c-2b7e6a9f0d11"))
    assert known.complete_for == frozenset()


def test_a_device_that_the_node_does_not_have_is_missing() -> None:
    gone = "GPU-99999999-90bb-4a1e-8d3c-2b7e6a9f0d11"
    known = held(gpu(TRAIN, gone))
    assert [(one.workload_id, one.key) for one in known.missing] == [("uid-train", gone)]
    assert known.covers("uid-train", Place(GPU))  # nobody knows where it is, so it is nowhere in breach


def test_network_cards_are_nobodys_business() -> None:
    known, dropped = allocations(Snapshot((gpu(TRAIN, "0000:3b:00.0", "rdma/hca"),)), PODS, INVENTORY)
    assert (known.allocations, dropped) == ((), {"resource_of_no_accelerator": 1})


def test_a_plugin_whose_scheduler_decides_leaves_the_device_to_the_processes() -> None:
    known = held(gpu(TRAIN, f"{GPU}-3"))
    assert (known.allocations, known.missing) == ((), ())
    assert known.unplaced == {"uid-train"}


def claim(container: Container, device: str = "gpu-0", share_id: str = "") -> ClaimedDevice:
    return ClaimedDevice(
        container, "gpu.nvidia.com", "node-1", device, share_id, ("k8s.gpu.nvidia.com/claim=c1-gpu-0",)
    )


def test_claims_are_found_by_the_uuid_of_their_resource_slice() -> None:
    places = {
        ("gpu.nvidia.com", "node-1", "gpu-0"): Place(GPU),
        ("gpu.nvidia.com", "node-1", "gpu-1-mig-1g.10gb-19-0"): Place(OTHER, MIG),
    }
    claims = (claim(TRAIN), claim(SERVE, "gpu-1-mig-1g.10gb-19-0"))
    known, _ = allocations(Snapshot(claims=claims), PODS, INVENTORY, places)
    assert [(one.workload_id, one.place, one.share) for one in known.allocations] == [
        ("uid-train", Place(GPU), 1),
        ("uid-serve", Place(OTHER, MIG), 1),
    ]


def test_without_resource_slices_a_claims_device_is_not_known_and_not_missing() -> None:
    known, dropped = allocations(Snapshot(claims=(claim(TRAIN),)), PODS, INVENTORY)
    assert (known.allocations, known.missing, known.unplaced) == ((), (), {"uid-train"})
    assert dropped == {"device_not_named": 1}


def test_pods_that_share_a_claim_share_a_device_in_unknown_parts() -> None:
    places = {("gpu.nvidia.com", "node-1", "gpu-0"): Place(GPU)}
    known, _ = allocations(Snapshot(claims=(claim(TRAIN), claim(SERVE))), PODS, INVENTORY, places)
    assert [(one.workload_id, one.share) for one in known.allocations] == [("uid-serve", None), ("uid-train", None)]


def test_a_static_pods_cgroup_leads_to_its_mirrors_uid() -> None:
    pods = [Pod("uid-api", "kube-system", "driver", "Running", cgroup_uid="0123456789abcdef0123456789abcdef")]
    assert held(pods=pods).aliases == {"0123456789abcdef0123456789abcdef": "uid-api"}
