"""A profile is data: what is wrong with one is said in a line that names the key."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.errors import CollectorError
from collectors.exporters.profile import FILES, profile_of, read_profile, recognise

MINE = """\
name: acme
vendor: Acme
recognise: ["^acme_"]
identity: {device_id: serial}
metrics:
  - {names: acme_busy, metric: gpu_utilization, factor: 1/255, range: [0, 255]}
"""


def refused(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    with pytest.raises(CollectorError) as error:
        read_profile(path)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}")


def test_a_profile_of_the_users_own_needs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    profile = profile_of(str(path))
    assert profile.metrics[0].unit.scaled(255) == 1.0
    assert recognise({"acme_busy", "go_goroutines"}, (*FILES.built_in, profile)) == (profile, "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("vendor: Acme", "", ": vendor: missing"),
        ("vendor: Acme", "vendors: Acme", ": vendor: missing"),
        ("name: acme", "name: acme\nkind: 3", ": kind: unknown key; known here: "),
        ("range: [0, 255]", "", ": metrics[0] (acme_busy): range is missing"),
        ("1/255", "1/0", ".factor: found '1/0'; expected a whole number such as 1048576 or a fraction such as 1/1000"),
        ("1/255", "0.5.1", ".factor: found '0.5.1'; expected a whole number"),
        ("gpu_utilization", "busy", ".metric: found 'busy'; expected a name of docs/telemetry.md"),
        (
            "factor: 1/255",
            "factor: 1",
            ": metrics[0] (acme_busy): range [0, 255] x factor 1 is more than 0 to 1, which gpu_utilization is",
        ),
        ("[0, 255]", "[255, 0]", "range [255, 0] is empty"),
        ("metrics:", "expected: [power_watts]\nmetrics:", "expected: no metric here is power_watts of a device"),
        ('"^acme_"', '"^acme_("', ": recognise: '^acme_(' is not a pattern"),
        ("identity: {device_id: serial}", "identity: {}", ": identity.device_id: missing"),
        ("range: [0, 255]", "range: [0, 255], scope: pod", ".scope: found 'pod'; Input should be 'each', 'device'"),
        ("range: [0, 255]", "range: [0, 255], false_zero: {partition: wrong}", ".false_zero.partition: found 'wrong'"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_its_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert said in refused(tmp_path, MINE.replace(old, new, 1))


def test_a_file_that_is_no_profile_is_reported_as_such(tmp_path: Path) -> None:
    assert "not a profile" in refused(tmp_path, "- 1\n")
    assert "not YAML" in refused(tmp_path, "a: [\n")
    assert "is gpu_utilization twice" in refused(tmp_path, MINE + MINE.splitlines()[-1] + "\n")
    with pytest.raises(CollectorError, match=r"profile 'dcmg': unknown. Known: amd, ascend, dcgm"):
        profile_of("dcmg")
    with pytest.raises(CollectorError, match=r"none.yaml: cannot be read"):
        profile_of(str(tmp_path / "none.yaml"))


def test_every_name_that_dcgm_changed_is_known_by_both_names(recorded: Callable[[str], str]) -> None:
    """Numbers of fields never change: they say which old and new name are one."""
    rows = list(csv.DictReader(io.StringIO(recorded("nvidia-dcgm-exporter/dcgm_4.6.0_field_aliases.csv"))))
    assert len(rows) > 300
    renamed = {int(row["field_id"]): (row["deprecated_name"], row["name_in_4_6_0"]) for row in rows}
    profile = profile_of("dcgm")
    numbers = {name: number for number, name, _, _ in reversed(profile.catalogue)}
    known = [set(rule.names) for rule in profile.metrics]
    ours = {number for number in renamed if any(numbers.get(name) == number for name in renamed[number])}
    for number in ours:
        assert any(set(renamed[number]) <= names for names in known), number
        assert {numbers[name] for name in renamed[number]} == {number}
    assert not {name for number in renamed.keys() - ours for name in renamed[number]} & set().union(*known)
    assert ours >= {203, 155, 140, 150, 202, 230, 393, 394, 395, 1001, 1002, 1003, 1004, 1005}


def test_the_catalogue_has_every_name_with_a_unit_that_its_rule_may_have() -> None:
    profile = profile_of("dcgm")
    units = {
        name: {unit for _, other, unit, _ in profile.catalogue if other == name} for _, name, _, _ in profile.catalogue
    }
    rules = {name: rule for rule in profile.metrics for name in rule.names}
    assert units.keys() == rules.keys()
    for name, rule in rules.items():
        if rule.units:
            assert units[name] <= set(rule.units), name
    assert units["DCGM_FI_DEV_GPU_UTIL_RATIO"] == {"percent", "ratio"}  # one name, two meanings


def test_the_stock_list_of_dcgm_exporter_is_known(recorded: Callable[[str], str]) -> None:
    lines = recorded("nvidia-dcgm-exporter/default-counters.csv").splitlines()
    enabled = {line.split(",")[0].strip() for line in lines if line.strip() and not line.startswith("#")}
    known = {name for rule in profile_of("dcgm").metrics for name in rule.names}
    left_out = {
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",  # has been seen to fall
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
        "DCGM_FI_DRIVER_VERSION",  # a label
    }
    assert enabled - known == left_out


def test_a_vendors_exporter_is_recognised_by_its_metrics(recorded: Callable[[str], str]) -> None:
    from collectors.exporters.exposition import names

    for name, profile in {
        "nvidia-dcgm-exporter/nvidia-aicr-eks-h100/dcgm_exporter_h100x8_sampled.prom": "dcgm",
        "amd-device-metrics-exporter/kaiwo_mi300x_gfx_activity_lines.prom": "amd",
        "ascend-npu-exporter/prometheus_metrics.prom": "ascend",
        "tpu/ray_tpu_v6e_excerpt.prom": "tpu",
        "hami/volcano-vgpu-device-plugin_readme_metrics.prom": "hami",
    }.items():
        found = recognise(names(recorded(name)))
        assert found is not None and found[0].name == profile
    for name in ("vllm/datadog_vllm_metrics_trimmed.prom", "triton/datadog_triton_metrics_trimmed.prom"):
        assert recognise(names(recorded(name))) is None


def test_what_a_site_puts_before_amds_names_is_found_out() -> None:
    found = recognise({"amd_gpu_gfx_activity", "amd_gpu_package_power", "up"})
    assert found is not None and (found[0].name, found[1]) == ("amd", "amd_")


def test_gaudis_metrics_are_all_known_or_left_out_for_a_reason(recorded: Callable[[str], str]) -> None:
    rows = csv.DictReader(io.StringIO(recorded("intel-gaudi/gaudi_metric_names.csv")))
    source = {row["metric"]: row["source_field"] for row in rows}
    rules = {name: rule for rule in profile_of("gaudi").metrics for name in rule.names}
    assert rules.keys() <= source.keys()
    assert rules["accelerator_power_usage_watts"].unit.scaled(450_000) == 450.0  # the name says watts, the value is mW
    assert rules["accelerator_sm_clock_hertz"].unit.scaled(1650) == 1.65e9
    assert "accelerator_memory_clock_hertz" not in rules and source["accelerator_memory_clock_hertz"] == "18000000"
    assert source["accelerator_power_usage_watts"] == source["habanalabs_power_mW"] == "dev.PowerUsage"
