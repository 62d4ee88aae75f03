"""What a device is measured by at an instant of which series are missing: ended, never there, or on their way."""

from __future__ import annotations

import pytest

from collectors.exporters.exposition import Series
from collectors.receivers.assemble import Instant, Memory, assemble
from collectors.receivers.lagging import BEHIND_SECONDS
from collectors.receivers.points import Target

TARGET = Target("prometheus", "c1", "dcgm", "n1:9400")
PERIOD = 15.0
NAMES = {"sm": "DCGM_FI_PROF_SM_ACTIVE", "gpu": "DCGM_FI_DEV_GPU_UTIL", "memory": "DCGM_FI_DEV_FB_USED"}
VALUES = {"sm": 0.25, "gpu": 57.0, "memory": 1024.0}


def series(device: str, *names: str, instance: str = "", zero: bool = False) -> list[Series]:
    of = {"UUID": f"GPU-{device}", "gpu": "0", "Hostname": "n1", "modelName": "H100"}
    of |= {"GPU_I_ID": instance, "GPU_I_PROFILE": "3g.40gb"} if instance else {}
    return [Series(NAMES[name], of, 0.0 if zero else VALUES[name]) for name in names]


def measured(*instants: tuple[list[Series], list[Series]]) -> list[tuple[str, str]]:
    """(device, what its utilization comes from) at the last instant. Each instant: its series, and those that end."""
    some = [Instant(1e9 + n * PERIOD, frozenset(), *each) for n, each in enumerate(instants)]
    last = assemble(TARGET, Memory(), some, lambda one: one.at == some[-1].at).rows["samples"]
    return sorted((row["device_id"], row.get("utilization_source", "")) for row in last if not row["partition_id"])


BOTH = series("0", "sm", "gpu", "memory")
LESS = series("0", "gpu", "memory")


def test_a_better_measure_that_is_missing_is_behind_until_its_series_has_ended() -> None:
    assert measured((BOTH, [])) == [("GPU-0", "sm_active")]
    assert measured((BOTH, []), (LESS, [])) == [("GPU-0", "")]
    assert measured((BOTH, []), (LESS, series("0", "sm"))) == [("GPU-0", "gpu_utilization")]
    assert measured((BOTH, []), (LESS, series("0", "sm")), (LESS, [])) == [("GPU-0", "gpu_utilization")]
    assert measured((BOTH, []), *[(LESS, [])] * 60) == [("GPU-0", "gpu_utilization")]  # a quarter of an hour


def test_a_device_that_never_had_it_is_measured_by_what_it_has_from_the_first_instant() -> None:
    assert measured((LESS, [])) == [("GPU-0", "gpu_utilization")]


def test_a_new_device_is_believed_to_lack_what_the_others_have_only_after_a_while() -> None:
    new = series("1", "gpu", "memory")
    assert measured((BOTH, []), (BOTH + new, [])) == [("GPU-0", "sm_active"), ("GPU-1", "")]
    many = [(BOTH + new, [])] * (1 + int(BEHIND_SECONDS / PERIOD))
    assert measured((BOTH, []), *many) == [("GPU-0", "sm_active"), ("GPU-1", "gpu_utilization")]


@pytest.mark.parametrize("zero", [True, False])
def test_a_new_device_beside_a_divided_one_is_not_idle_because_of_a_zero_that_divided_ones_have(zero: bool) -> None:
    divided = series("0", "memory", instance="1")
    new = series("1", "gpu", "memory", zero=zero)
    expected = "" if zero else "gpu_utilization"
    assert measured((divided, []), (divided + new, [])) == [("GPU-0", ""), ("GPU-1", expected)]
    many = [(divided + new, [])] * (1 + int(BEHIND_SECONDS / PERIOD))
    assert measured((divided, []), *many) == [("GPU-0", ""), ("GPU-1", "gpu_utilization")]
