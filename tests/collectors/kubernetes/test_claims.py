"""Dynamic resource allocation: claims name devices, slices say which UUIDs those are."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from collectors.kubernetes.claims import SHARED_UNITS, Claims, slice_devices
from collectors.kubernetes.cluster import Cluster
from collectors.kubernetes.follow import Changed, Listed
from collectors.kubernetes.pods import Around, DeviceFacts, Heard, Known, observe
from collectors.kubernetes.settings import Settings
from collectors.kubernetes.sharing import Held, shares
from tests.collectors.kubernetes.make import admitted, bound, ended, pod, running, second, stamp

HERE = Settings(cluster="c1")
NOW = Heard(second(9999))


def attribute(**values: str) -> dict[str, Any]:
    return {key: {"string": value} for key, value in values.items()}


def slice_(devices: list[dict[str, Any]], driver: str = "gpu.nvidia.com", node: str = "n1") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-{driver}", "creationTimestamp": stamp(-100)},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node}, "devices": devices},
    }


GPU = {
    "name": "gpu-0",
    "attributes": attribute(type="gpu", uuid="GPU-aa", productName="NVIDIA H100 80GB HBM3"),
    "capacity": {"memory": {"value": "80Gi"}},
}
MIG = {
    "name": "gpu-1-mig-1g10gb-9-0",
    "attributes": attribute(
        type="mig", uuid="MIG-1", parentUUID="GPU-bb", profile="1g.10gb", productName="NVIDIA H100 80GB HBM3"
    ),
    "capacity": {"memory": {"value": "9856Mi"}},
}


def claim(name: str, devices: list[str] | None, classes: str = "gpu.nvidia.com", **result: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "chem", "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": classes, "count": 1}}]}},
        "status": {},
    }
    if devices is not None:
        results = [
            {"driver": classes, "pool": "n1", "device": device, "request": "gpu", **result} for device in devices
        ]
        found["status"]["allocation"] = {"devices": {"results": results}}
    return found


def claiming(name: str, **more: Any) -> dict[str, Any]:
    return pod("u", gpus=0, spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}, **more)


def starts(claims: Claims, versions: list[dict[str, Any]], units: int = 0) -> list[dict[str, Any]]:
    """units: of each device, as its node's agent has it; 0: only the API tells of it."""
    around = Around(claims=claims.of, device=lambda _: DeviceFacts(units) if units else None)
    known: Known | None = None
    rows: list[dict[str, Any]] = []
    for version in versions:
        observed = observe(known, version, around, HERE, NOW)
        known, rows = observed.known, [*rows, *observed.rows]
    return [row for row in rows if row["event"] == "started"]


def life(first: dict[str, Any]) -> list[dict[str, Any]]:
    placed = admitted(bound(first, 5), 6)
    return [first, placed, running(placed, 10)]


def test_a_claimed_device_is_named_by_its_uuid_in_any_version_of_the_api() -> None:
    beta = copy.deepcopy(GPU)
    basic = {"attributes": beta.pop("attributes"), "capacity": beta.pop("capacity")}
    for device in (GPU, {**beta, "basic": basic}):
        claims = Claims()
        claims.put_slice(slice_([device]))
        claims.put_claim(claim("one", ["gpu-0"]))
        (row,) = starts(claims, life(claiming("one")))
        assert (row["device_id"], row["gpus"], row["ts"], "units" in row) == ("GPU-aa", 1.0, second(5), False)


def test_a_claimed_partition_is_a_part_of_its_device() -> None:
    claims = Claims()
    claims.put_slice(slice_([MIG]))
    claims.put_claim(claim("one", ["gpu-1-mig-1g10gb-9-0"]))
    (row,) = starts(claims, life(claiming("one")))
    assert (row["device_id"], row["partition_id"], row["partition_profile"], row["units"]) == (
        "GPU-bb", "MIG-1", "1g.10gb", SHARED_UNITS // 7,
    )  # fmt: skip


def test_a_pod_is_reported_in_full_once_its_claim_and_slice_are_known() -> None:
    claims = Claims()
    runs = life(claiming("one"))[-1]
    waiting = observe(None, runs, Around(claims=claims.of), HERE, NOW)
    assert (waiting.rows, waiting.known and waiting.known.waiting) == ((), True)
    claims.put_claim(claim("one", None))  # seen, but not as allocated
    asked = observe(waiting.known, runs, Around(claims=claims.of), HERE, NOW)
    assert [row["event"] for row in asked.rows] == ["submitted"]
    assert asked.known is not None and asked.known.waiting
    claims.put_claim(claim("one", ["gpu-0"]))
    assert observe(asked.known, runs, Around(claims=claims.of), HERE, NOW).rows == ()  # its slice is missing
    claims.put_slice(slice_([GPU]))
    then = observe(asked.known, runs, Around(claims=claims.of), HERE, NOW)
    assert [(row["event"], row["device_id"]) for row in then.rows] == [("started", "GPU-aa")]
    assert then.known is not None and not then.known.waiting


def test_a_pods_end_is_reported_after_its_claim_is_gone() -> None:
    claims = Claims()
    claims.put_slice(slice_([GPU]))
    claims.put_claim(claim("one", ["gpu-0"]))
    runs = life(claiming("one"))[-1]
    known = observe(None, runs, Around(claims=claims.of), HERE, NOW).known
    claims.drop_claim(("chem", "one"))
    done = observe(known, ended(runs, 50), Around(claims=claims.of), HERE, NOW)
    assert [(row["event"], row["allocation_id"]) for row in done.rows] == [("finished", "u")]


def test_a_device_without_a_published_uuid_is_reported_as_one_of_the_node() -> None:
    claims = Claims()
    nameless = {"name": "gpu-32-160", "attributes": attribute(type="amdgpu", productName="MI300X")}
    claims.put_slice(slice_([nameless], "gpu.amd.com"))
    claims.put_claim(claim("one", ["gpu-32-160"], "gpu.amd.com"))
    (row,) = starts(claims, life(claiming("one")))
    assert (row.get("device_id"), row["gpus"], row["node"]) == (None, 1.0, "n1")


def test_claims_for_other_things_and_administrators_claims_hold_nothing() -> None:
    claims = Claims()
    claims.put_slice(slice_([GPU]))
    claims.put_claim(claim("nic", ["nic-0"], "dra.net"))
    claims.put_claim(claim("imex", ["channel-0"], "compute-domain.nvidia.com"))
    claims.put_claim(claim("admin", ["gpu-0"], adminAccess=True))
    for name in ("nic", "imex", "admin"):
        assert starts(claims, life(claiming(name))) == []


def test_a_claim_made_from_a_template_is_found_by_the_name_that_the_pod_was_given() -> None:
    claims = Claims()
    claims.put_slice(slice_([GPU]))
    claims.put_claim(claim("train-u-gpu-x7f", ["gpu-0"]))
    template = pod("u", gpus=0, spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]})
    assert claims.of(template) is None
    template["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "train-u-gpu-x7f"}]
    assert [row["device_id"] for row in starts(claims, life(template))] == ["GPU-aa"]


def test_pods_whose_claims_were_never_seen_are_counted_not_guessed() -> None:
    over = ended(life(claiming("lost"))[-1], 50)
    observed = observe(None, over, Around(claims=Claims().of), HERE, NOW)
    assert (observed.rows, observed.known, observed.dropped) == ((), None, "claims_never_seen")


def test_slices_name_the_whole_devices_of_a_node_once() -> None:
    claims = Claims()
    parent = {"name": "gpu-1", "attributes": attribute(type="gpu", uuid="GPU-bb", productName="NVIDIA H100 80GB HBM3")}
    tainted = {"name": "gpu-2", "attributes": attribute(type="gpu", uuid="GPU-cc"), "taints": [{"key": "xid"}]}
    claims.put_slice(slice_([GPU, MIG, parent, tainted]))
    found = {device.device_id: device for device in claims.inventory_of("n1")}
    assert [(key, device.units, device.usable) for key, device in found.items()] == [
        ("GPU-aa", SHARED_UNITS, True),
        ("GPU-bb", SHARED_UNITS, True),
        ("GPU-cc", SHARED_UNITS, False),
    ]
    assert (found["GPU-aa"].memory_bytes, found["GPU-bb"].memory_bytes) == (80 << 30, None)
    assert slice_devices(slice_([GPU], "dra.net")) == {}


SHARED = {**GPU, "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "100"}}}


def consuming(name: str, share: str, **consumed: str) -> dict[str, Any]:
    return claim(name, ["gpu-0"], shareID=share, consumedCapacity=consumed)


@pytest.mark.parametrize(
    ("by", "consumed", "units"),
    [
        ("larger", {"memory": "20Gi"}, 210),
        ("larger", {"gpu.nvidia.com/memory": "20Gi", "gpu.nvidia.com/cores": "50"}, 420),
        ("memory", {"memory": "20Gi", "cores": "50"}, 210),
        ("cores", {"memory": "20Gi", "cores": "50"}, 420),
        ("cores", {"memory": "20Gi"}, 210),
        ("larger", {"memory": "80Gi"}, None),
        ("larger", {}, None),
    ],
)
def test_what_a_claim_consumes_of_a_shared_device_is_its_part_of_it(
    by: Any, consumed: dict[str, str], units: int | None
) -> None:
    claims = Claims(by)
    claims.put_slice(slice_([SHARED]))
    for name, share in (("one", "s1"), ("two", "s2")):
        claims.put_claim(consuming(name, share, **consumed))
        (row,) = starts(claims, life(claiming(name)))
        part = 1.0 if units is None else units / SHARED_UNITS
        assert (row["device_id"], row.get("units"), row["gpus"]) == ("GPU-aa", units, part)
        # Its agent has it in hundredths.
        (row,) = starts(claims, life(claiming(name)), units=100)
        assert row.get("units") == (None if units is None else int(part * 100))


def test_two_shares_of_one_device_in_one_pod_add_up() -> None:
    claims = Claims()
    claims.put_slice(slice_([SHARED]))
    both = consuming("both", "s1", memory="20Gi")
    results = both["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "shareID": "s2", "consumedCapacity": {"memory": "40Gi"}})
    claims.put_claim(both)
    (row,) = starts(claims, life(claiming("both")))
    assert (row["units"], row["gpus"]) == (630, 0.75)


def test_partitions_that_only_counters_make_known_are_parts_of_the_device_that_takes_all() -> None:
    def consuming_counters(memory: str, engines: str) -> list[dict[str, Any]]:
        return [{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}, "engines": {"value": engines}}}]

    whole = {**GPU, "consumesCounters": consuming_counters("80Gi", "8")}
    half = {"name": "half-0", "attributes": attribute(model="X"), "consumesCounters": consuming_counters("40Gi", "2")}
    counters = slice_([])
    counters["metadata"]["name"] = "counters"
    counters["spec"]["sharedCounters"] = [
        {"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}, "engines": {"value": "8"}}}
    ]
    claims = Claims()
    claims.put_slice(slice_([whole, half]))
    claims.put_slice(counters)
    claims.put_claim(claim("one", ["half-0"]))
    claims.put_claim(claim("all", ["gpu-0"]))
    (row,) = starts(claims, life(claiming("one")))
    assert (row["device_id"], row["partition_id"], row["units"], row["gpus"]) == ("GPU-aa", "half-0", 420, 0.5)
    (row,) = starts(claims, life(claiming("all")))
    assert (row["device_id"], row.get("partition_id"), row.get("units")) == ("GPU-aa", None, None)
    assert [device.device_id for device in claims.inventory_of("n1")] == ["GPU-aa"]


def claims_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["allocation_id"], row["event"], (row["ts"] - second(0)).total_seconds(), row.get("units")


def test_a_claim_of_several_pods_is_split_among_them_and_its_time_reported_once() -> None:
    cluster = Cluster(HERE)
    cluster.apply("slices", Listed([slice_([GPU])], "1", True, True), second(0))
    cluster.apply("claims", Listed([claim("one", ["gpu-0"])], "1", True, True), second(0))
    reported: list[Any] = []

    def see(version: dict[str, Any], at: float) -> None:
        nonlocal cluster
        rows = cluster.apply("pods", Changed(version, "", False), second(at)).rows.get("events", [])
        reported.extend(claims_row(row) for row in rows if row["event"] != "submitted")
        # What is remembered of who holds what survives being written down.
        plain = {key: plain for kind, key, plain in cluster.changes() if kind == "pod" and plain is not None}
        known.update(json.loads(json.dumps(plain)))
        again = Cluster(HERE)
        again.restore("", second(at), known, {}, {})
        again.apply("slices", Listed([slice_([GPU])], "1", True, True), second(0))
        again.apply("claims", Listed([claim("one", ["gpu-0"])], "1", True, True), second(0))
        cluster = again

    known: dict[str, Any] = {}
    pods = {uid: claiming("one") for uid in "abc"}
    for uid, version in pods.items():
        version["metadata"] |= {"uid": uid, "name": uid}
    running_ = {}
    for at, (uid, version) in zip((10, 20, 30), pods.items(), strict=True):
        running_[uid] = running(admitted(bound(version, at), at), at)
        see(running_[uid], at)
    see(ended(running_["a"], 40), 41)
    see(ended(running_["c"], 50), 51)
    see(ended(running_["b"], 60), 61)
    assert reported == [
        ("a", "started", 10, None),
        ("a", "resized", 20, 420),
        ("b", "started", 20, 420),
        ("a", "resized", 30, 280),
        ("b", "resized", 30, 280),
        ("c", "started", 30, 280),
        ("a", "finished", 40, None),
        ("b", "resized", 40, 420),
        ("c", "resized", 40, 420),
        ("c", "finished", 50, None),
        ("b", "resized", 50, None),
        ("b", "finished", 60, None),
    ]


def test_of_a_device_of_one_unit_the_next_holder_begins_when_the_first_ends() -> None:
    held = (Held("chem/one", "GPU-aa", "", "", None, 1),)
    holders = {"chem/one": ["a", "b"]}
    assert shares(held, "a", holders) == {("GPU-aa", "", ""): 1}
    assert shares(held, "b", holders) == {}
    assert shares(held, "b", {"chem/one": ["b"]}) == {("GPU-aa", "", ""): None}
