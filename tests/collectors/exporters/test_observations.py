"""What a scrape says of devices: once each, and never a zero for what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.exporters.exposition import Series, names, parse
from collectors.exporters.observations import Holder, Observation, Observations, OwnPod, Reader
from collectors.exporters.profile import ALLOWED, FILES, Profile, profile_of, recognise
from collectors.exporters.tracker import Tracker
from collectors.readings import Reading
from tests.draws import drawn_seed

NOW = 1_790_000_000.0
H100 = 'gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'


def seen(
    body: str,
    profile: str = "",
    at: float = NOW,
    node: str = "n1",
    max_age: float | None = 60.0,
    own_pod: OwnPod | None = None,
    honor_labels: bool | None = True,
) -> Observations:
    found = (profile_of(profile), "") if profile else recognise(names(body))
    assert found is not None
    read = parse(body)
    assert not read.dropped
    result = Reader(*found).read(
        read.series, at, node=node, max_age=max_age, own_pod=own_pod, honor_labels=honor_labels
    )
    assert len(read.series) == result.used + sum(result.dropped.values())
    return result


def device(result: Observations, device_id: str, partition: str = "") -> Observation:
    (found,) = [one for one in result.devices if (one.device_id, one.partition) == (device_id, partition)]
    return found


def usable(reading: Reading) -> float:
    assert reading.usable and reading.value is not None
    return reading.value


# --- research section 7, on the recorded scrapes


def test_memory_held_at_no_activity_is_neither_unallocated_nor_active() -> None:
    """Acceptance 2, as the recorded H100 had it: 74166 MiB held, 0 % busy, 113.6 W."""
    labels = H100 + ',container="main",namespace="dynamo-workload",pod="vllm-0",pod_uid=""'
    body = f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 0\nDCGM_FI_DEV_FB_USED{{{labels}}} 74166\n"
    body += f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 113.611000\n"
    gpu = device(seen(body), "GPU-a")
    assert gpu.holders == (Holder("dynamo-workload", "vllm-0"),) and not gpu.shared
    assert usable(gpu.readings["gpu_utilization"]) == 0.0
    assert usable(gpu.readings["memory_used_bytes"]) == 74166 * 1048576
    assert usable(gpu.readings["power_watts"]) == 113.611


def test_the_recorded_h100s_have_one_pod_between_them(recorded: Callable[[str], str]) -> None:
    result = seen(recorded("nvidia-dcgm-exporter/nvidia-aicr-eks-h100/dcgm_exporter_h100x8_sampled.prom"))
    assert len(result.devices) == 8 and result.used == 30
    holders = {one.index: one.holders for one in result.devices}
    assert holders.pop(0) == (Holder("dynamo-workload", "vllm-agg-0-vllmdecodeworker-s65j5", uid=""),)
    assert set(holders.values()) == {()}
    power = math.fsum(usable(one.readings["power_watts"]) for one in result.devices)
    assert power == pytest.approx(583.767)


def test_a_board_under_mig_draws_its_power_once() -> None:
    """Acceptance 3: four instances of one A30 repeat 52.7 W (and its energy, temperature and clock)."""
    body = ""
    for instance, watts in ((3, 52.6), (4, 52.6), (5, 52.7), (6, 52.7)):
        labels = f'gpu="0",UUID="GPU-a30",modelName="NVIDIA A30",GPU_I_PROFILE="1g.6gb",GPU_I_ID="{instance}"'
        body += f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {watts}\n"
        body += f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {7_000_000 + instance}\n"
        body += f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 0\n"
        body += f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.{instance}\n"
    result = seen(body)
    assert math.fsum(one.readings["power_watts"].value or 0 for one in result.devices) == 52.7
    assert usable(device(result, "GPU-a30").counters["energy_joules"].reading) == 7_000_006
    for gi in "3456":
        part = device(result, "GPU-a30", gi)
        assert part.readings["power_watts"].state == "unsupported"
        assert part.readings["gpu_utilization"].state == "unsupported"  # 0 there is no measurement
        assert usable(part.readings["graphics_active"]) == float(f"0.{gi}")
        assert part.partition_profile == "1g.6gb" and "energy_joules" not in part.counters
    assert device(result, "GPU-a30").readings["gpu_utilization"].state == "unsupported"


def test_a_divided_gpus_own_zero_is_no_measurement() -> None:
    body = f'DCGM_FI_DEV_GPU_UTIL{{{H100}}} 0\nDCGM_FI_DEV_FB_USED{{{H100},GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"}} 5\n'
    assert device(seen(body), "GPU-a").readings["gpu_utilization"].state == "unsupported"
    whole = device(seen(f"DCGM_FI_DEV_GPU_UTIL{{{H100}}} 0\n"), "GPU-a")
    assert usable(whole.readings["gpu_utilization"]) == 0.0


def test_three_copies_for_three_pods_are_one_device() -> None:
    """Acceptance 4: time-slicing with virtual GPUs repeats every series for each pod."""
    body = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{H100},vgpu="{n}",pod="p{n}",namespace="team"}} 0.714\n'
        f'DCGM_FI_DEV_POWER_USAGE{{{H100},vgpu="{n}",pod="p{n}",namespace="team"}} 300\n'
        for n in range(3)
    )
    result = seen(body)
    (gpu,) = result.devices
    assert usable(gpu.readings["graphics_active"]) == 0.714
    assert usable(gpu.readings["power_watts"]) == 300
    assert gpu.shared and len(gpu.holders) == 3
    assert result.dropped == {"another series says it": 4}


def test_per_pod_zeros_do_not_hide_what_the_device_does() -> None:
    """The per-process mode has a plain series too, and a 0 for each pod whose processes it cannot see."""
    pods = "".join(f'DCGM_FI_DEV_GPU_UTIL{{{H100},vgpu="{n}",pod="p{n}",namespace="t"}} 0\n' for n in range(2))
    gpu = device(seen(pods + f"DCGM_FI_DEV_GPU_UTIL{{{H100}}} 57\n"), "GPU-a")
    assert usable(gpu.readings["gpu_utilization"]) == 0.57 and gpu.shared
    assert device(seen(pods), "GPU-a").readings["gpu_utilization"].state == "blank"


def test_one_pod_on_one_of_several_shares_holds_no_whole_device() -> None:
    assert device(seen(f'DCGM_FI_DEV_GPU_UTIL{{{H100},vgpu="2",pod="p",namespace="t"}} 5\n'), "GPU-a").shared


@pytest.mark.parametrize(
    "value",
    [
        *("9223372036854775794", "9223372036854775792", "9.223372036854775807e18", "140737488355328", "2147483633"),
        *("808334905", "2619", "4294967295", "NaN", "+Inf", "-1", "1e400", "101"),
    ],
)
def test_blanks_and_garbage_are_blank_and_never_values(value: str) -> None:
    """Acceptance 5."""
    result = seen(f"DCGM_FI_DEV_GPU_UTIL{{{H100}}} {value}\nDCGM_FI_DEV_SM_CLOCK{{{H100}}} {value}\n")
    for name in ("gpu_utilization", "sm_clock_hertz"):
        reading = device(result, "GPU-a").readings[name]
        if not (name == "sm_clock_hertz" and value in ("2619", "101")):
            assert (reading.state, reading.value) == ("blank", None)


@pytest.mark.parametrize(
    ("profile", "first", "last"),
    [("dcgm", 2147483632, 2147483635), ("dcgm", 2**47, 2**47 + 3), ("amd", 4294967295, 4294967295)],
)
def test_sentinels_are_blank_up_to_their_edges_and_no_further(profile: str, first: int, last: int) -> None:
    """Of an energy, whose range has room for them: nothing but the sentinel itself keeps it from being a value."""
    name, labels = {
        "dcgm": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", H100),
        "amd": ("gpu_energy_consumed", 'serial_number="GPU-a",gpu_id="0"'),
    }[profile]
    found = [
        device(seen(f"{name}{{{labels}}} {value}\n", profile), "GPU-a").counters["energy_joules"].reading.state
        for value in (first - 1, first, last, last + 1)
    ]
    assert found == ["ok", "blank", "blank", "ok"]


def test_the_recorded_blank_is_blank(recorded: Callable[[str], str]) -> None:
    result = seen(recorded("nvidia-dcgm-exporter/readme_blank_value_sample.prom"))
    (gpu,) = result.devices
    assert gpu.readings["memory_temperature_celsius"] == Reading("blank", None, "DCGM_FI_DEV_MEMORY_TEMP")
    assert usable(gpu.readings["sm_clock_hertz"]) == 139e6
    assert gpu.holders == () and result.dropped["blank"] == 2


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total"])
@pytest.mark.parametrize("type_line", ["", "# TYPE {} counter\n", "# TYPE {} gauge\n"])
def test_energy_is_there_however_it_is_typed(name: str, type_line: str) -> None:
    """Acceptance 6: with the suffix that a parser adds, and without."""
    gpu = device(seen(type_line.format(name) + f"{name}{{{H100}}} 128996013\n"), "GPU-a")
    assert usable(gpu.counters["energy_joules"].reading) == 128996013  # how fast it rises will tell the unit
    assert gpu.readings["energy_joules_total"].state == "blank"


def test_the_recorded_energy_is_there(recorded: Callable[[str], str]) -> None:
    body = recorded("nvidia-dcgm-exporter/datadog-integrations-core/dcgm_docker_serve_metrics.prom")
    result = seen(body + "\n")
    assert usable(device(result, "GPU-20c56d28-0da5-6d26-a36a-e7af1ce2586e").counters["energy_joules"].reading) > 1e8
    assert {one.model for one in result.devices} == {"Tesla T4"}


def test_zeros_that_name_no_device_are_dropped_and_counted(recorded: Callable[[str], str]) -> None:
    body = recorded("nvidia-dcgm-exporter/datadog-integrations-core/dcgm_tests_fixtures_metrics.prom")
    result = seen(body + "\n")
    assert result.dropped["names no device"] == 10
    assert {one.device_id for one in result.devices} >= {"GPU-abc"}
    assert "graphics_active" not in device(result, "GPU-abc").readings


def test_old_and_new_names_and_hostnames_are_one_series() -> None:
    """Acceptance 7: DCGM 4.6 renamed fields, exporter 4.8.3 renamed the label."""
    old = f"DCGM_FI_DEV_GPU_UTIL{{{H100}}} 58\nDCGM_FI_PROF_SM_ACTIVE{{{H100}}} 0.4\n"
    labels = H100.replace("Hostname", "hostname")
    new = f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{labels}}} 58\nDCGM_FI_PROF_SM_UTIL_RATIO{{{labels}}} 0.4\n"
    first = 'dcgm_gpu_utilization{gpu="0",uuid="GPU-a"} 58\n'
    both = seen(old + new, node="")
    (gpu,) = both.devices
    assert gpu.node == "n1" and both.used == 2
    for body in (old, new, first, old + new):
        assert usable(device(seen(body, "dcgm", node=""), "GPU-a").readings["gpu_utilization"]) == 0.58


def test_a_pods_tpu_series_count_and_the_nodes_only_where_none_is_bound(recorded: Callable[[str], str]) -> None:
    """Acceptance 10: of one chip at one instant the pod's says 42 and the node's 99."""
    result = seen(recorded("tpu/gke_tpu_device_plugin_tpu7x_nonzero.prom").replace("promhttp", "# promhttp"))
    assert usable(device(result, "1234567890123456789-4").readings["gpu_utilization"]) == 0.42
    assert usable(device(result, "1234567890123456789-0").readings["gpu_utilization"]) == 0.0
    assert device(result, "1234567890123456789-0").holders == ()
    assert result.dropped["the node's, while a pod is bound"] == 1


def test_a_bound_chips_own_series_missing_is_blank_not_the_nodes() -> None:
    body = 'memory_used{accelerator_id="i-1",pod="p",namespace="n"} 5\nduty_cycle_node{accelerator_id="i-1"} 99\n'
    assert device(seen(body, "tpu"), "i-1").readings["gpu_utilization"] == Reading("blank")


def test_a_part_of_an_amd_board_has_no_power_of_its_own() -> None:
    """Acceptance 11: in CPX mode partition 0 tells of the whole board, and the others say 0."""
    body = ""
    for part in range(3):
        labels = f'gpu_id="{part}",serial_number="s1",gpu_compute_partition_type="cpx",gpu_partition_id="{part}"'
        body += f"gpu_package_power{{{labels}}} {640 if part == 0 else 0}\n"
        body += f"gpu_used_vram{{{labels}}} {100 + part}\n"
    body += 'gpu_gfx_activity{gpu_id="0",serial_number="s1",gpu_compute_partition_type="cpx",gpu_partition_id="0"} 70\n'
    result = seen(body)
    assert usable(device(result, "s1").readings["power_watts"]) == 640
    assert usable(device(result, "s1").readings["gpu_utilization"]) == 0.7
    for number in "012":
        assert device(result, "s1", number).readings["power_watts"].state == "unsupported"
        assert device(result, "s1", number).readings["gpu_utilization"].state == "unsupported"
        assert usable(device(result, "s1", number).readings["memory_used_bytes"]) == (100 + int(number)) * 1048576
    zeros = seen(body.replace(" 640\n", " 0\n"))
    assert device(zeros, "s1").readings["power_watts"].state == "unsupported"


def test_recorded_amd_boards_are_not_the_exporters(recorded: Callable[[str], str]) -> None:
    result = seen(recorded("amd-device-metrics-exporter/kaiwo_mi300x_gfx_activity_lines.prom"), node="")
    holders = {one.device_id: one.holders for one in result.devices if not one.partition}
    assert holders == {
        "692409005408": (),
        "692409005296": (),  # its pod is the exporter, filled in by Prometheus
        "692409005328": (Holder("default", "high-utilization-57ls6"),),
    }
    assert {one.node for one in result.devices} == {"tw038", "tw009"}


def test_amds_energy_is_in_microjoules_and_clocks_are_distinguished(recorded: Callable[[str], str]) -> None:
    result = seen(recorded("amd-device-metrics-exporter/aiperf_dme_two_gpu.prom"))
    first = device(result, "SN-0").readings
    assert usable(first["energy_joules_total"]) == 1.4e11
    assert (usable(first["sm_clock_hertz"]), usable(first["memory_clock_hertz"])) == (1.533e9, 1.292e9)
    assert first["gpu_utilization"] == Reading("blank")  # expected, and not there
    assert result.dropped == {"other labels than the profile's": 1}


def test_gaudis_units_are_the_catalogues_not_the_names() -> None:
    labels = 'UUID="01P0-HL2080A0-14-TNBS76-03-07-06",id="0",pod_namespace="ml",pod_name="train-0"'
    body = f"accelerator_power_usage_watts{{{labels}}} 385000\naccelerator_sm_clock_hertz{{{labels}}} 1650\n"
    gpu = device(seen(body), "01P0-HL2080A0-14-TNBS76-03-07-06")
    assert usable(gpu.readings["power_watts"]) == 385.0 and usable(gpu.readings["sm_clock_hertz"]) == 1.65e9
    assert gpu.holders == (Holder("ml", "train-0"),)
    in_watts = seen(body.replace("385000", "385"))
    assert in_watts.devices[0].readings["power_watts"].state == "blank"  # 0.385 W would be a lie


def test_ascends_own_timestamps_count(recorded: Callable[[str], str]) -> None:
    body = recorded("ascend-npu-exporter/prometheus_metrics.prom")
    fresh = seen(body, at=1_606_402.0 + 20)
    assert len(fresh.devices) == 8 and {one.at for one in fresh.devices} == {1_606_402.0}
    assert usable(device(fresh, "n1/npu3").readings["gpu_utilization"]) == 0.0
    assert device(fresh, "n1/npu3").readings["memory_total_bytes"].state == "blank"  # no chip has 0 bytes
    late = seen(body)
    assert {reading.state for one in late.devices for reading in one.readings.values()} == {"stale"}
    assert {one.at for one in late.devices} == {NOW}
    ignored = seen(body, max_age=None)
    assert {one.at for one in ignored.devices} == {NOW} and usable(ignored.devices[0].readings["power_watts"]) == 0


def test_hamis_hook_measures_each_pod_by_itself(recorded: Callable[[str], str]) -> None:
    result = seen(recorded("hami/volcano-vgpu-device-plugin_readme_metrics.prom"))
    (gpu,) = result.devices  # two devices with one (redacted) UUID disagree, so neither is believed
    assert gpu.readings["gpu_utilization"].state == "blank"
    assert result.dropped["copies that disagree"] == 4
    (readings,) = gpu.workloads.values()
    assert usable(readings["process_activity"]) == 0.99
    assert usable(readings["memory_used_bytes"]) == 2109867008
    assert usable(readings["last_kernel_seconds"]) == 0
    assert gpu.holders == ()  # a part of a device is no device


# --- labels


@pytest.mark.parametrize(
    ("labels", "honor", "holder"),
    [
        ('pod="train-0",namespace="ml",pod_uid="u1"', None, Holder("ml", "train-0", "u1")),
        ('pod="",namespace=""', None, None),
        ('pod="nvidia-dcgm-exporter-x",namespace="gpu-operator"', None, None),
        (
            'pod="nvidia-dcgm-exporter-x",namespace="ops",exported_pod="t",exported_namespace="ml"',
            None,
            Holder("ml", "t"),
        ),
        ('pod="metrics-abc",namespace="ops",exported_pod="t",exported_namespace="ml"', False, Holder("ml", "t")),
        ('pod="metrics-abc",namespace="ops"', False, None),
        ('pod="metrics-abc",namespace="ops"', True, Holder("ops", "metrics-abc")),
        ('pod="metrics-abc",namespace="ops",job="d",instance="i:9400"', None, None),  # the target's own, says `up`
        ('pod="metrics-abc",namespace="ops",hpc_job="4711"', False, Holder(job="4711")),
    ],
)
def test_who_holds_it_by_either_honor_labels(labels: str, honor: bool | None, holder: Holder | None) -> None:
    def own(of: Mapping[str, str]) -> bool:
        return of.get("instance") == "i:9400" and of.get("pod") == "metrics-abc"

    result = seen(f"DCGM_FI_DEV_GPU_TEMP{{{H100},{labels}}} 30\n", own_pod=own, honor_labels=honor)
    assert result.devices[0].holders == ((holder,) if holder else ())


OWN = 'gpu="0",UUID="GPU-1",pci_bus_id="0:1",device="nvidia0",modelName="NVIDIA H100"'
OF_USERS = {
    "UUID": "GPU-2", "uuid": "GPU-2", "gpu_uuid": "GPU-2", "exported_UUID": "GPU-2", "modelName": "T4",
    "model_name": "T4", "Hostname": "n2", "hostname": "n2", "node": "n2", "kubernetes_node": "n2", "gpu": "7",
    "GPU": "7", "GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb", "gpu_i_id": "3", "dra_mig_device_uuid": "MIG-2",
    "dra_mig_profile": "1g.10gb", "pod": "victim", "pod_name": "victim", "exported_pod": "victim", "namespace":
    "v", "pod_namespace": "v", "exported_namespace": "v", "container": "c", "exported_container": "c",
    "pod_uid": "u-victim", "exported_pod_uid": "u-victim", "hpc_job": "4711", "exported_hpc_job": "4711",
    "vgpu": "1", "job": "j", "instance": "i", "app": "x", "zone": "z",
}  # fmt: skip


def page(draw: Random, forged: Iterable[str], mig: bool, host: bool, uid: bool) -> str:
    """As dcgm-exporter writes it: what is the device's, in its order; then labels of pods with the driver's, sorted;
    then what it says of the pod, sorted."""
    labels = [OWN, *(['GPU_I_PROFILE="2g.20gb"', 'GPU_I_ID="5"'] if mig else []), *(['Hostname="n1"'] if host else [])]
    labels += sorted([*(f'{name}="{OF_USERS[name]}"' for name in forged), 'DCGM_FI_DRIVER_VERSION="550"'])
    labels += ['container="main"', 'namespace="ml"', 'pod="train-0"', *(['pod_uid="u-1"'] if uid else [])]
    field = draw.choice(("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"))
    return f"{field}{{{','.join(labels)}}} 0.57\n"


def test_whatever_labels_a_pod_has_its_page_says_the_same_as_without_them() -> None:
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    draw, profile = Random(seed), profile_of("dcgm")
    for _ in range(300):
        mig, host, uid = draw.random() < 0.5, draw.random() < 0.8, draw.random() < 0.5
        forged = draw.sample(sorted(OF_USERS.keys() - ({"Hostname"} if not host else set())), draw.randrange(1, 8))
        said = []
        for some in ([], forged):
            read = parse(page(Random(seed), some, mig, host, uid), own=profile.own)
            said.append(Reader(profile).read(read.series, NOW, node="n1").devices)
        assert said[1] == said[0], forged
        one = said[0][-1]
        assert one.holders == (Holder("ml", "train-0", "u-1" if uid else ""),)
        assert (one.partition, one.partition_profile) == (("5", "2g.20gb") if mig else ("", ""))


@pytest.mark.parametrize("name", ["pod_template_hash", "batch_kubernetes_io_controller_uid"])
def test_where_prometheus_sorts_all_labels_of_pods_none_of_them_is_a_pods_identity(name: str) -> None:
    """There nothing tells the exporter's own from a user's, and an exporter that shows the one shows the other."""
    profile = profile_of("dcgm")
    reader = Reader(profile)
    forged = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-b",gpu="1",hpc_job="4711",namespace="ml",pod="b",pod_uid="u"} 30\n'
    reported = f'DCGM_FI_DEV_GPU_TEMP{{UUID="GPU-a",gpu="0",namespace="ml",pod="a",{name}="x"}} 30\n'

    def holders(body: str) -> list[Holder]:
        devices = reader.read(parse(body, own=profile.own).series, NOW).devices
        return [holder for one in devices for holder in one.holders]

    assert holders(forged) == [Holder("ml", "b", "u", "4711")]
    assert holders(reported + forged) == [Holder("ml", "a"), Holder("ml", "b")]
    assert holders(forged) == [Holder("ml", "b")]  # another exporter of the same Prometheus


def test_where_some_pods_have_no_uid_those_of_others_are_their_users() -> None:
    """As found: in a cluster without controllers, a pod's label `pod_uid` was believed behind a Prometheus. Labels that
    stand as the exporter wrote them cannot be forged: there each pod's own counts."""
    profile = profile_of("dcgm")
    reader = Reader(profile)
    of_user = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-b",gpu="1",namespace="ml",pod="b",pod_uid="victim"} 30\n'
    plain = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-a",gpu="0",namespace="ml",pod="a"} 30\n'
    free = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-c",gpu="2"} 30\n'

    def uids(body: str, after: float) -> list[str]:
        devices = reader.read(parse(body, own=profile.own).series, NOW + after).devices
        return [holder.uid for one in devices for holder in one.holders]

    assert uids(of_user + free, 0) == ["victim"]  # every pod has one: it may be the exporter's
    assert uids(of_user + plain, 30) == ["", ""]
    assert uids(of_user, 60) == [""]  # another node's exporter
    assert uids(of_user, 3630) == [""]
    assert uids(of_user, 3631) == ["victim"]  # it tells them since
    own = f'DCGM_FI_DEV_GPU_TEMP{{{OWN},Hostname="n1",container="c",namespace="ml",pod="%s"%s}} 30\n'
    page = own % ("a", "") + own.replace("GPU-1", "GPU-2") % ("b", ',pod_uid="u"')
    assert uids(page, 3700) == ["", "u"]
    assert uids(of_user, 3730) == ["victim"]


SEES_PODS = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-x",gpu="9",namespace="ml",pod="x",pod_template_hash="5"} 30\n'


def series_of(pod: str = "", partition: str = "") -> str:
    labels = 'UUID="GPU-a",gpu="0",modelName="NVIDIA H100"'
    labels += f',pod="{pod}",namespace="ml"' if pod else ""
    labels += f',GPU_I_ID="{partition}",GPU_I_PROFILE="3g.40gb"' if partition else ""
    return f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.5\n"


@pytest.mark.parametrize(
    ("pages", "partitions"),
    [
        ([series_of(), series_of("a", "7")], [[""], [""]]),  # whole while nobody had it: its user wrote that
        ([series_of("a"), series_of("a", "7")], [[""], []]),
        ([series_of("a", "7")], [[]]),  # nobody knows
        ([series_of("", "7"), series_of("a", "7")], [["7"], ["7"]]),
        ([series_of("", "8") + series_of("a", "7"), series_of("a", "7")], [["7", "8"], ["7"]]),
        ([series_of("a", "7") + series_of("b", "8")], [["7", "8"]]),
        ([series_of(), series_of("a", "7"), series_of("", "7")], [[""], [""], ["7"]]),  # divided since
    ],
)
def test_where_prometheus_sorts_all_labels_of_pods_a_pod_says_of_no_gpu_that_it_is_divided(
    pages: list[str], partitions: list[list[str]]
) -> None:
    reader = Reader(profile_of("dcgm"))
    for page, some in zip(pages, partitions, strict=True):
        found = reader.read(parse(SEES_PODS + page).series, NOW)
        seen_of = sorted(one.partition for one in found.devices if one.device_id == "GPU-a")
        assert seen_of == (["", *some] if some and some != [""] else some)
        assert found.dropped["partition reported by a pod's labels alone"] == (not some)


def test_what_is_left_out_because_a_pods_labels_alone_tell_its_partition_is_a_finding_each_hour() -> None:
    reader, tracker = Reader(profile_of("dcgm")), Tracker("NVIDIA", 30)
    for at in range(0, 7260, 30):
        tracker.advance(reader.read(parse(SEES_PODS + series_of("a", "7")).series, NOW + at))
    reported = [(row["ts"].timestamp() - NOW, row["device_id"], row["finding"]) for row in tracker.findings]
    assert reported == [(at, "GPU-a", "partition_untold") for at in (0, 3600, 7200)]
    tracker.advance(reader.read(parse(SEES_PODS + series_of("", "7") + series_of("a", "7")).series, NOW + 11_000))
    assert len(tracker.findings) == 3


def test_without_all_labels_of_pods_a_partition_is_the_exporters_own() -> None:
    found = Reader(profile_of("dcgm")).read(parse(series_of("a", "7")).series, NOW)
    assert [one.partition for one in found.devices] == ["", "7"]


def test_a_node_is_where_it_was_read_and_localhost_is_none() -> None:
    body = f'DCGM_FI_DEV_GPU_TEMP{{{H100.replace("n1", "localhost")},instance="gpu-7:9400"}} 30\n'
    assert seen(body, node="n9").devices[0].node == "n9"
    assert seen(body, node="").devices[0].node == "gpu-7"


# --- fuzz

KNOWN = [name for profile in FILES.built_in for name in Reader(profile).names]
TEXTS = st.sampled_from(["", "GPU-a", "GPU-b", "0", "1", "7", "cpx", "p", "q", "dcgm-exporter-1", "\x00é"])
NAMES = [
    "UUID",
    "gpu",
    "GPU_I_ID",
    "vgpu",
    "pod",
    "namespace",
    "exported_pod",
    "serial_number",
    "gpu_id",
    "id",
    "device_uuid",
]
NAMES += [
    "accelerator_id",
    "clock_type",
    "gpu_compute_partition_type",
    "gpu_partition_id",
    "hpc_job",
    "instance",
    "other",
]
SERIES = st.builds(
    Series,
    st.sampled_from(KNOWN) | st.text(max_size=8),
    st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=8),
    st.one_of(st.integers(0, 120), st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, 1.0, 2**63 - 14])),
    st.none() | st.floats(-1e3, 1e3) | st.floats(NOW - 100, NOW + 100),
)


@given(st.sampled_from(FILES.built_in), st.lists(SERIES, max_size=40))
def test_whatever_comes_every_value_is_in_its_range_and_every_series_accounted_for(
    profile: Profile, series: list[Series]
) -> None:
    reader = Reader(profile)
    result = reader.read(series, NOW, node="n", max_age=60)
    assert len(series) == result.used + sum(result.dropped.values())
    keys = [(one.device_id, one.partition) for one in result.devices]
    assert len(keys) == len(set(keys)) and all(device_id for device_id, _ in keys)
    for one in result.devices:
        assert NOW - 60 <= one.at <= NOW + 10
        for readings in (one.readings, *one.workloads.values()):
            for name, reading in readings.items():
                assert (reading.value is None) == (reading.state not in ("ok", "idle"))
                low, high = ALLOWED[name]
                assert reading.value is None or (math.isfinite(reading.value) and low <= reading.value <= high)
