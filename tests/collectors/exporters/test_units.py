"""Units by evidence: right, or blank with a finding; never off by 100 in silence."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from collectors.exporters.exposition import Series, parse
from collectors.exporters.memory import Memory
from collectors.exporters.observations import Observation, Reader
from collectors.exporters.profile import profile_of
from collectors.exporters.tracker import Tracker
from collectors.exporters.units import VOTES, SourceUnits
from collectors.readings import Reading
from tests.draws import drawn_seed

NOW = 1_790_000_000.0
UTIL, RATIO = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"
GR = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
OLD, NEW = "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"
FLEETS = int(os.environ.get("GPULEDGER_UNITS", "2"))


class Source:
    """One target's pages, one after another; what each says of GPU-a, GPU-b and so on."""

    def __init__(self, units: SourceUnits | None = None, target: str = "10.0.0.1:9400", driver: str = OLD) -> None:
        self.units, self.target, self.driver, self.at = units or SourceUnits(), target, driver, NOW

    def page(self, *fields: tuple[str, str], device: str = "GPU-a", metric: str = "gpu_utilization") -> Reading:
        """The reading of a metric on a page with these fields of one device."""
        return self.pages({device: fields}, metric)[device]

    def pages(self, devices: dict[str, Any], metric: str = "gpu_utilization") -> dict[str, Reading]:
        self.at += 15
        found = Reader(profile_of("dcgm")).read(self.series(devices), self.at, units=self.units)
        return {one.device_id: one.readings[metric] for one in found.devices}

    def series(self, devices: dict[str, Any]) -> list[Series]:
        known = f'modelName="L4",Hostname="n1",{self.driver}="580",job="j",instance="{self.target}"'
        lines = [
            f'{name}{{UUID="{device}",{known}}} {text}\n' for device, fields in devices.items() for name, text in fields
        ]
        return parse("".join(lines)).series

    def reported(self) -> list[tuple[str, str]]:
        return [(row["finding"], row["message"]) for row in self.units.notes(self.at)]


def blank(reading: Reading) -> bool:
    return (reading.state, reading.value) == ("blank", None)


def test_a_fraction_is_a_ratio_and_more_than_one_a_percentage() -> None:
    """As found: 0.87 beside a graphics engine that was active for 0.86 came out as 0.0087, and nothing was said."""
    assert Source().page((UTIL, "0.87"), (GR, "0.86")).value == 0.87
    assert Source().page((UTIL, "0.87")).value == 0.87
    assert Source().page((UTIL, "87")).value == 0.87
    assert Source().page((RATIO, "87")).value == 0.87  # DCGM 4.6
    assert Source().page((RATIO, "0.87")).value == 0.87  # DCGM 4.7


def test_a_stream_of_zeros_and_ones_is_undecided_until_a_number_tells() -> None:
    source = Source()
    assert source.page((UTIL, "0")).value == 0.0  # nothing is nothing in every unit
    assert not source.reported()
    assert all(blank(source.page((UTIL, "1"))) for _ in range(20))
    ((finding, message),) = source.reported()  # once
    assert finding == "unit_undecided" and f"{UTIL} of j/10.0.0.1:9400" in message and "percent and ratio" in message
    assert source.page((UTIL, "0.5")).value == 0.5
    assert source.page((UTIL, "1")).value == 1.0  # remembered
    percent = Source()
    percent.page((UTIL, "2"))
    assert percent.page((UTIL, "1")).value == 0.01
    assert not source.reported() and not percent.reported()


def test_what_stays_undecided_is_a_warning_after_an_hour() -> None:
    source, reported = Source(), []
    for _ in range(3 * 240):
        source.page((UTIL, "1"))
        reported += [(row["finding"], row["severity"]) for row in source.units.notes(source.at)]
    assert reported == [("unit_undecided", "info"), ("unit_undecided", "warning"), ("unit_undecided", "warning")]


def test_what_one_device_shows_holds_for_the_others_of_its_page_and_no_other_target() -> None:
    units = SourceUnits()
    one, other = Source(units), Source(units, "10.0.0.2:9400")
    found = one.pages({"GPU-a": [(UTIL, "1")], "GPU-b": [(UTIL, "57")]})
    assert {device: reading.value for device, reading in found.items()} == {"GPU-a": 0.01, "GPU-b": 0.57}
    assert blank(other.page((UTIL, "1"), device="GPU-c"))
    assert other.page((UTIL, "0.3"), device="GPU-c").value == 0.3
    assert other.page((UTIL, "1"), device="GPU-c").value == 1.0 and one.page((UTIL, "1"), device="GPU-a").value == 0.01


def test_memory_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "exporter.json"
    memory = Memory(path)
    Source(memory.units("u")).page((UTIL, "0.5"))
    memory.save()
    written = path.stat().st_mtime_ns
    memory.save()
    assert path.stat().st_mtime_ns == written  # nothing changed
    assert Source(Memory(path).units("u")).page((UTIL, "1")).value == 1.0
    assert blank(Source(Memory(path).units("v")).page((UTIL, "1")))
    for damage in ("{", "[]", '{"units": {"u": {"t": {"f": [1]}}}, "devices": {}}', '{"units": {}}'):
        path.write_text(damage)
        again = Memory(path)
        assert (again.damaged != "") == (damage != '{"units": {}}')
        assert blank(Source(again.units("u")).page((UTIL, "1")))


@pytest.mark.parametrize("why", ["away", "version", "another target"])
def test_memory_is_not_believed_where_the_exporter_may_be_another(why: str) -> None:
    source = Source()
    for n in range(3):
        source.page((UTIL, str(90 + n)))
    if why == "away":
        source.units.doubt("j/10.0.0.1:9400")
    elif why == "version":
        source.driver = NEW
    else:
        other = Source(source.units, "10.0.0.2:9400")
        other.at = source.at
        other.page((UTIL, "50"), device="GPU-c")
        other.page((UTIL, "0.5"), device="GPU-c")
        assert [finding for finding, _ in other.reported()] == ["unit_changed"]
    assert blank(source.page((UTIL, "1"), device="GPU-b"))
    assert [finding for finding, _ in source.reported()] == ["unit_undecided"]
    assert source.page((UTIL, "0.99")).value == 0.99
    assert source.page((UTIL, "1"), device="GPU-b").value == 1.0
    ((finding, message),) = source.reported()
    assert finding == "unit_changed" and "was percent, is ratio now" in message and "may be wrong" not in message


def test_a_device_that_would_jump_by_100_is_doubted_before_any_number_tells() -> None:
    source = Source()
    source.page((UTIL, "99"))
    assert blank(source.page((UTIL, "1")))  # 1 %, or 100 % by a collector that rescales since now
    assert [finding for finding, _ in source.reported()] == ["unit_undecided"]
    assert source.page((UTIL, "3")).value == 0.03
    assert source.page((UTIL, "1")).value == 0.01


def test_a_device_that_is_busy_for_long_is_not_doubted_for_long() -> None:
    """From the newest unit back to an old one is hardly ever gone: 100 % after 1 % is a job that began."""
    source = Source()
    source.page((UTIL, "0.01"))
    found = [source.page((UTIL, "1")).value for _ in range(VOTES + 3)]
    assert found == [*[None] * VOTES, 1.0, 1.0, 1.0]
    percent = Source()
    percent.page((UTIL, "99"))
    assert [percent.page((UTIL, "1")).value for _ in range(50)] == [None] * 50


def test_a_wrong_decision_by_memory_is_reported() -> None:
    source = Source()
    for text in ("2", "0", "1", "1"):
        assert (
            source.page((UTIL, text)).value == float(text) / 100
        )  # the last two were 100 %, rescaled: nobody can know
    assert source.page((UTIL, "0.98")).value == 0.98
    ((finding, message),) = source.reported()
    assert finding == "unit_changed" and "at least 2 readings since were taken for percent and may be wrong" in message


@pytest.mark.parametrize(("activity", "value"), [("0.97", 1.0), ("0.012", 0.01)])
def test_the_other_measure_of_activity_decides_after_several_readings(activity: str, value: float) -> None:
    source = Source()
    found = [source.page((UTIL, "1"), (GR, activity)) for _ in range(VOTES + 1)]
    assert all(blank(reading) for reading in found[: VOTES - 1])
    assert found[-1].value == value
    undecided = Source()
    assert all(blank(undecided.page((UTIL, "1"), (GR, "0.1"))) for _ in range(2 * VOTES))  # ten times from both
    wavering = Source()
    assert all(blank(wavering.page((UTIL, "1"), (GR, ("0.9", "0.01")[n % 2]))) for n in range(2 * VOTES))


def test_memory_is_not_believed_against_the_activity() -> None:
    source = Source()
    source.page((UTIL, "2"))
    assert blank(source.page((UTIL, "1"), (GR, "0.97")))
    assert source.page((UTIL, "1"), (GR, "0.2")).value == 0.01  # a fifth of the time, or a short look: it says nothing


def test_a_mean_of_percentages_is_no_ratio() -> None:
    """Who averages shows fractions: where the activity says otherwise, and where one is above 1, they prove nothing."""
    source = Source()
    assert all(blank(source.page((UTIL, "0.5"), (GR, "0.005"))) for _ in range(VOTES - 1))
    assert source.page((UTIL, "0.5"), (GR, "0.005")).value == 0.005
    source = Source()
    assert source.page((UTIL, "57.25")).value == 0.5725
    assert blank(source.page((UTIL, "0.5")))  # a fall by 100, or another unit
    assert source.page((UTIL, "1.5")).value == 0.015
    assert source.page((UTIL, "0.5")).value == 0.005


def test_both_units_on_one_page_are_nobodys() -> None:
    source = Source()
    found = source.pages({"GPU-a": [(UTIL, "57")], "GPU-b": [(UTIL, "0.57")], "GPU-c": [(UTIL, "0")]})
    assert found["GPU-a"].value == 0.57 and blank(found["GPU-b"]) and found["GPU-c"].value == 0.0
    ((finding, message),) = source.reported()
    assert finding == "unit_undecided" and "percent and ratio in one answer" in message


def test_a_field_of_a_later_version_tells_what_a_name_means() -> None:
    """GPU_UTIL_RATIO is a percentage in DCGM 4.6; FB_USED_BYTES came with 4.7, where it is a ratio."""
    assert Source().page((RATIO, "1"), ("DCGM_FI_DEV_FB_USED_BYTES", "1048576000")).value == 1.0
    assert blank(Source().page((RATIO, "1"), ("DCGM_FI_DEV_FB_USED", "1000")))
    assert blank(Source().page((UTIL, "1"), ("DCGM_FI_DEV_FB_USED_BYTES", "1048576000")))  # rescaled or not
    assert Source().page((RATIO, "57"), ("DCGM_FI_DEV_FB_USED_BYTES", "1048576000")).value == 0.57  # numbers come first


@pytest.mark.parametrize(
    ("name", "text", "metric", "value"),
    [
        ("DCGM_FI_DEV_FB_USED", "74166", "memory_used_bytes", 74166 * 2**20),
        ("DCGM_FI_DEV_FB_USED", "77768687616", "memory_used_bytes", 77768687616),
        ("DCGM_FI_DEV_FB_USED_BYTES", "77768687616", "memory_used_bytes", 77768687616),
        ("DCGM_FI_DEV_FB_USED", "4096", "memory_used_bytes", None),  # a page, or 4 GiB
        ("DCGM_FI_DEV_FB_USED", "808334905", "memory_used_bytes", None),  # no bytes: no driver gives out part of a page
        ("DCGM_FI_DEV_FB_USED", "0", "memory_used_bytes", 0.0),
        ("DCGM_FI_DEV_FB_TOTAL", "81920", "memory_total_bytes", 80 * 2**30),  # no board has 80 KiB
        ("DCGM_FI_DEV_FB_CAPACITY_BYTES", "85899345920", "memory_total_bytes", 80 * 2**30),
        ("DCGM_FI_DEV_FB_TOTAL", "0", "memory_total_bytes", None),
        ("DCGM_FI_DEV_SM_CLOCK", "1980", "sm_clock_hertz", 1.98e9),
        ("DCGM_FI_DEV_SM_CLOCK_HERTZ", "1980000000", "sm_clock_hertz", 1.98e9),
        ("DCGM_FI_DEV_SM_CLOCK", "1980000001", "sm_clock_hertz", None),
    ],
)
def test_memory_and_clocks_by_their_size(name: str, text: str, metric: str, value: float | None) -> None:
    reading = Source().page((name, text), metric=metric)
    assert reading.value == value and (reading.state == "ok") == (value is not None)


@pytest.mark.parametrize(
    ("name", "scale"), [("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1000), ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1)]
)
@pytest.mark.parametrize("watts", [None, 350.0])
def test_energy_by_how_fast_it_rises(name: str, scale: int, watts: float | None) -> None:
    source = Source()
    tracker = Tracker("NVIDIA", 15, units=source.units)

    def energy(joules: float) -> dict[str, Reading]:
        fields = [(name, str(joules * scale))] + ([("DCGM_FI_DEV_POWER_USAGE", str(watts))] if watts else [])
        source.at += 15
        seen = Reader(profile_of("dcgm")).read(source.series({"GPU-a": fields}), source.at, units=source.units)
        (one,) = tracker.advance(seen)
        return dict(one.reading.readings)

    first = energy(5_000_000)
    assert blank(first["energy_joules"]) and blank(first["energy_joules_total"])  # nothing to compare with
    assert energy(5_000_000 + 15 * 300)["energy_joules"].value == 15 * 300
    last = energy(5_000_000 + 15 * 600)
    assert last["energy_joules"].value == 15 * 300 and last["energy_joules_total"].value == 5_000_000 + 15 * 600
    assert energy(5_000_000 + 15 * 600)["energy_joules"].value == 0.0
    joules = 5_000_000 + 15 * 600
    for _ in range(VOTES - 1):  # 1 W is too little for a board, and 1000 W in another unit not too much
        joules += 15
        assert energy(joules)["energy_joules"].value == (None if scale == 1000 else 15.0)
    assert energy(joules + 15 * 300)["energy_joules"].value == 15 * 300


@pytest.mark.parametrize(("watts", "gained"), [("2800", 45_000.0), ("3.1", 45.0), (None, None)])
def test_the_power_tells_the_unit_of_an_energy_that_may_be_either(watts: str | None, gained: float | None) -> None:
    """3000 a second are 3 W or 3 kW."""
    source, found = Source(), None
    tracker = Tracker("NVIDIA", 15, units=source.units)
    for total in (1_000_000, 1_045_000):
        fields = [("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", str(total))]
        fields += [("DCGM_FI_DEV_POWER_USAGE", watts)] if watts else []
        source.at += 15
        seen = Reader(profile_of("dcgm")).read(source.series({"GPU-a": fields}), source.at, units=source.units)
        (found,) = tracker.advance(seen)
    assert found is not None and found.reading.readings["energy_joules"].value == gained


def test_an_energy_that_changes_its_unit_is_blank_and_then_right() -> None:
    source = Source()
    tracker = Tracker("NVIDIA", 15, units=source.units)
    found = []
    for n in range(20):
        joules = 5_000_000 + 15 * 300 * n
        fields = [("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", str(joules * 1000 if n < 10 else joules))]
        source.at += 15
        seen = Reader(profile_of("dcgm")).read(source.series({"GPU-a": fields}), source.at, units=source.units)
        found += [one.reading.readings["energy_joules"].value for one in tracker.advance(seen)]
    assert found == [None, *[4500.0] * 9, *[None] * VOTES, *[4500.0] * (10 - VOTES)]
    assert [finding for finding, _ in source.reported()] == ["unit_undecided", "unit_changed"]


# --- random fleets against a reckoning of their own


@dataclass
class Gpu:
    """What it truly does: percent of its time, MiB held, joules drawn since its driver was loaded."""

    name: str
    percent: int = 0
    mebibytes: int = 0
    joules: float = 1e6
    megahertz: int = 1980

    def step(self, rng: random.Random) -> None:
        drawn = rng.random()
        if drawn < 0.25:
            self.percent = rng.choice([0, 0, 1, 1, 2, 57, 99, 100, 100])
        elif drawn < 0.7:
            self.percent = min(100, max(0, self.percent + rng.randint(-3, 3)))
        self.mebibytes = rng.choice([0, self.mebibytes, rng.randint(1, 81_000)])
        self.joules += 15 * rng.randint(60, 700)


@dataclass
class Exporter:
    """One target: how it names and scales at the moment. rescaled: by a collector that keeps the names."""

    name: str
    gpus: list[Gpu]
    version: str
    rescaled: bool
    profiling: bool
    silently: bool = False
    wrong: list[tuple[float, str]] = field(default_factory=list)

    @property
    def utilization(self) -> str:
        return UTIL if self.version == "4.5" else RATIO

    def fields(self, gpu: Gpu, rng: random.Random) -> list[tuple[str, str]]:
        ratio = self.rescaled or self.version == "4.7"
        found = [(self.utilization, f"{gpu.percent / 100:f}" if ratio else str(gpu.percent))]
        if self.version == "4.7":
            found += [("DCGM_FI_DEV_FB_USED_BYTES", str(gpu.mebibytes << 20))]
            found += [("DCGM_FI_DEV_SM_CLOCK_HERTZ", str(gpu.megahertz * 10**6))]
            found += [("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", str(int(gpu.joules)))]
        else:
            found += [("DCGM_FI_DEV_FB_USED", str(gpu.mebibytes)), ("DCGM_FI_DEV_SM_CLOCK", str(gpu.megahertz))]
            found += [("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", str(int(gpu.joules * 1000)))]
        if self.profiling:
            found.append((GR, f"{min(1.0, gpu.percent / 100 * rng.uniform(0.7, 1.3)):f}"))
        rng.shuffle(found)
        return found


def truths(gpu: Gpu) -> dict[str, float]:
    return {
        "gpu_utilization": gpu.percent / 100,
        "memory_used_bytes": float(gpu.mebibytes << 20),
        "sm_clock_hertz": gpu.megahertz * 1e6,
    }


def test_random_fleets_are_measured_right_or_blank_with_a_finding() -> None:
    right = unknown = 0
    for number in range(FLEETS):
        seed = str(drawn_seed(f"{__name__} fleet {number}"))
        print(f"GPULEDGER_SEED={seed}")
        some = try_fleet(random.Random(seed))
        right, unknown = right + some[0], unknown + some[1]
    assert right > 20 * unknown


def try_fleet(rng: random.Random) -> tuple[int, int]:
    """Targets of all versions, some rescaled under the old names, upgraded in mid-life; the process restarts at times.

    Of an upgrade the labels tell: not one value may be wrong. A collector that begins to rescale shows nothing: what
    memory decided before a number told must be named by a finding, and nothing else may be wrong.
    """
    fleet = [
        Exporter(
            f"10.0.0.{n}:9400",
            [Gpu(f"GPU-{n}-{m}") for m in range(rng.choice([1, 1, 2, 4]))],
            rng.choice(["4.5", "4.6", "4.7"]),
            rng.random() < 0.3,
            rng.random() < 0.5,
        )
        for n in range(rng.randint(1, 5))
    ]
    units, tracker = SourceUnits(), Tracker("NVIDIA", 15)
    findings: list[dict[str, Any]] = []
    right = unknown = 0
    at = NOW
    for tick in range(120):
        at += 15
        if rng.random() < 0.03:
            units = SourceUnits.of(json.loads(json.dumps(units.plain())))
        tracker.units = units
        for exporter in fleet:
            if rng.random() < 0.01:
                exporter.version = rng.choice(["4.5", "4.6", "4.7"])
                exporter.rescaled &= exporter.version != "4.7"
            elif rng.random() < 0.01 and exporter.version != "4.7":
                exporter.rescaled, exporter.silently = not exporter.rescaled, True
            for gpu in exporter.gpus:
                gpu.step(rng)
                if tick >= 118:
                    gpu.percent = 57  # at the end the numbers tell, so that every finding is due
        pages: dict[str, Observation] = {}
        series: list[Series] = []
        for exporter in fleet:
            driver = OLD if exporter.version == "4.5" else f'{NEW}="{exporter.version}",x'
            source = Source(units, exporter.name, driver)
            series += source.series({gpu.name: exporter.fields(gpu, rng) for gpu in exporter.gpus})
        seen = Reader(profile_of("dcgm")).read(series, at, units=units)
        pages = {one.device_id: one for one in seen.devices}
        energies = {one.reading.device_id: one.reading.readings["energy_joules"] for one in tracker.advance(seen)}
        findings += units.notes(at)
        for exporter in fleet:
            for gpu in exporter.gpus:
                for metric, truth in truths(gpu).items():
                    reading = pages[gpu.name].readings[metric]
                    if reading.value is None:
                        unknown += 1
                        assert any(exporter.name in row["message"] for row in findings), (tick, gpu, metric)
                        assert any(row["finding"] == "unit_undecided" for row in findings)
                    elif reading.value == pytest.approx(truth, rel=1e-9):
                        right += 1
                    else:
                        assert metric == "gpu_utilization" and exporter.silently, (tick, gpu, metric, reading)
                        exporter.wrong.append((at, exporter.utilization))
                energy = energies[gpu.name]
                assert energy.value is None or 15 * 60 - 1 <= energy.value <= 15 * 700 + 1, (tick, gpu, energy)
    for exporter in fleet:
        for when, name in exporter.wrong:
            named = [
                row
                for row in findings
                if row["finding"] == "unit_changed" and "may be wrong" in row["message"]
                if exporter.name in row["message"] and name in row["message"] and row["ts"].timestamp() >= when
            ]
            assert named, (exporter, when)
    print(f"{right} right, {unknown} blank, {sum(len(one.wrong) for one in fleet)} wrong and named")
    return right, unknown


# --- the alarm for units that no profile knows


def jumped(
    before: str, after: str, devices: int, driver: str = NEW, name: str = "DCGM_FI_DEV_POWER_USAGE"
) -> list[str]:
    """What is told when a field of so many devices says this before and that after."""
    source, tracker = Source(), Tracker("NVIDIA", 15)
    for n in range(20):
        fields = [(name, after if n >= 10 else before)]
        source.driver = driver if n >= 10 else OLD
        source.at += 15
        series = source.series({f"GPU-{m}": fields for m in range(devices)})
        tracker.advance(Reader(profile_of("dcgm")).read(series, source.at))
    return [row["message"] for row in tracker.findings if row["finding"] == "metric_jumped"]


def test_a_jump_of_the_fleets_median_at_an_upgrade_is_reported_once() -> None:
    """Power in kilowatts, from one version on: no profile knows of it."""
    (message,) = jumped("350", "0.35", 4)
    assert "power_watts of 4 devices became 0.001 times what it was" in message
    (message,) = jumped("0.35", "350", 8)
    assert "power_watts" in message
    assert not jumped("350", "0.35", 3)  # as many as a job may end on
    assert not jumped("350", "0.35", 8, driver=OLD)  # no upgrade
    assert not jumped("350", "90", 8)  # a job ended
    assert not jumped("350", "0", 8) and not jumped("0", "350", 8)  # nothing is nothing in every unit


# --- the recorded H100s, as each version would have shown them

NEWER = {  # old name -> (name since DCGM 4.7, how many of its units one of the old is)
    UTIL: (RATIO, 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 2**20),
    "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", 2**20),
    "DCGM_FI_DEV_FB_RESERVED": ("DCGM_FI_DEV_FB_RESERVED_BYTES", 2**20),
    "DCGM_FI_DEV_SM_CLOCK": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 10**6),
    "DCGM_FI_DEV_MEM_CLOCK": ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 10**6),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 0.001),
    "DCGM_FI_DEV_POWER_USAGE": ("DCGM_FI_DEV_BOARD_POWER_WATTS", 1),
    "DCGM_FI_DEV_GPU_TEMP": ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1),
    GR: ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1),
}


@pytest.mark.parametrize("new", [lambda number: True, lambda number: number % 2], ids=["all", "mixed"])
def test_recorded_gpus_read_the_same_in_old_and_new_names_and_units(
    recorded: Callable[[str], str], new: Callable[[int], bool]
) -> None:
    """The page as it was recorded, and with the names and units of DCGM 4.7: for each GPU, or for every other one."""
    page = parse(recorded("nvidia-dcgm-exporter/nvidia-aicr-eks-h100/dcgm_exporter_h100x8_sampled.prom") + "\n").series
    later = []
    for one in page:
        labels, name, value = dict(one.labels), one.name, one.value
        if new(int(labels.get("gpu", 0))):
            labels["hostname"], labels[NEW] = labels.pop("Hostname"), labels.pop(OLD)
            name, factor = NEWER.get(name, (name, 1))
            value = value * factor
        later.append(Series(name, labels, value))
    before, after = (Reader(profile_of("dcgm")).read(series, NOW) for series in (page, later))
    assert len(after.devices) == len(before.devices) == 8
    compared = 0
    for old, found in zip(before.devices, after.devices, strict=True):
        assert old.device_id == found.device_id and old.node == found.node
        for metric, reading in old.readings.items():
            now = found.readings[metric]
            same = now.value is reading.value is None or now.value == pytest.approx(reading.value, rel=1e-9)
            assert same and now.state == reading.state, (metric, reading, now)
            compared += reading.usable
    assert compared >= 30 and "unit not known" not in after.dropped
