"""Exporters' devices as device rows: seen, silent, gone; a row when something changed and not before."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from collectors.exporters.exposition import parse
from collectors.exporters.inventory import CONFIRMED, GONE_SECONDS, ExporterInventory
from collectors.exporters.memory import Memory
from collectors.exporters.observations import Reader
from collectors.exporters.profile import Profile, profile_of
from collectors.exporters.scrape import ExporterCollector
from collectors.exporters.tracker import Tracker
from collectors.readings import Row
from tests.collectors.exporters.serving import Exporter
from tests.draws import drawn_seed

START = datetime(2026, 10, 1, 12, tzinfo=UTC)


class Site:
    """Pages of dcgm-exporter, one a minute, or of another profile."""

    def __init__(self, inventory: ExporterInventory | None = None, profile: str = "dcgm") -> None:
        self.inventory, self.profile = inventory or ExporterInventory("c"), profile_of(profile)
        self.tracker, self.at = Tracker(self.profile.vendor, 60), START.timestamp()

    def page(self, body: str, seconds: float = 60) -> list[tuple[str, str, str]]:
        """(device, state, node) of the rows that a page adds."""
        return [(row["device_id"], row["state"], row["node"]) for row in self.rows(body, seconds)]

    def rows(self, body: str, seconds: float = 60) -> list[Row]:
        self.at += seconds
        seen = Reader(self.profile).read(parse(body).series, self.at)
        observed = self.tracker.advance(seen)
        observed += self.tracker.gone(((one.device_id, one.partition) for one in seen.devices), self.at)
        return [*self.inventory.take(observed, self.profile), *self.inventory.missing(self.at)]


def gpu(
    name: str, node: str = "n1", model: str = "H100", more: str = "", fields: str = "DCGM_FI_DEV_GPU_UTIL 5"
) -> str:
    labels = f'{{UUID="{name}",modelName="{model}",Hostname="{node}"{more}}}'
    return "".join(f"{line.split()[0]}{labels} {line.split()[1]}\n" for line in fields.split(";"))


def test_a_device_is_reported_once_with_all_that_is_known_of_it() -> None:
    site = Site(ExporterInventory("c", pool="train"))
    (row,) = site.rows(gpu("GPU-a", fields="DCGM_FI_DEV_GPU_UTIL 5;DCGM_FI_DEV_FB_TOTAL 81559"))
    assert row == {
        "ts": START + timedelta(seconds=60),
        "cluster": "c",
        "node": "n1",
        "device_id": "GPU-a",
        "vendor": "nvidia",
        "model": "H100",
        "units": 1,
        "memory_bytes": 81559 * 2**20,
        "pool": "train",
        "state": "available",
    }
    assert [site.page(gpu("GPU-a")) for _ in range(50)] == [[]] * 50


def test_a_device_that_comes_back_is_reported_again_as_its_node_may_have_been_removed() -> None:
    """As the Kubernetes watch does when the node is deleted; the device is in no list of devices from then on."""
    site = Site()
    site.page(gpu("GPU-a"))
    assert [site.page("") for _ in range(3)] == [[]] * 3
    assert site.page(gpu("GPU-a")) == [("GPU-a", "available", "n1")]
    assert site.page(gpu("GPU-a")) == []
    assert [site.page("") for _ in range(2)] == [[]] * 2  # a look or two that fail are no absence
    assert site.page(gpu("GPU-a")) == []
    assert [site.page("", 10) for _ in range(5)] == [[]] * 5  # nor is a minute
    assert site.page(gpu("GPU-a")) == []


def test_a_device_without_a_model_is_no_row() -> None:
    assert Site().page(gpu("GPU-a", model="")) == []


def test_numbers_of_long_ago_show_no_device() -> None:
    """An exporter that hangs repeats them with their own timestamps."""
    site = Site()
    old = gpu("GPU-a").replace(" 5\n", f" 5 {(START.timestamp() - 7200) * 1000:.0f}\n")
    found = Reader(site.profile).read(parse(old).series, site.at, max_age=120)
    assert [one.device_id for one in found.devices] == ["GPU-a"]
    assert site.inventory.take(site.tracker.advance(found), site.profile) == []


def test_a_lasting_change_is_reported_from_when_it_began() -> None:
    site = Site()
    site.page(gpu("GPU-a"))
    assert [site.page(gpu("GPU-a", "n2")) for _ in range(CONFIRMED - 1)] == [[]] * (CONFIRMED - 1)
    (row,) = site.rows(gpu("GPU-a", "n2"))
    assert (row["node"], row["ts"]) == ("n2", START + timedelta(seconds=120))
    assert [site.page(gpu("GPU-a", f"n{1 + n % 2}")) for n in range(40)] == [[]] * 40  # by two names at once


def test_a_size_is_reported_once_known_and_not_again_for_a_small_change() -> None:
    site = Site()
    total = "DCGM_FI_DEV_GPU_UTIL 5;DCGM_FI_DEV_FB_TOTAL {}"
    assert "memory_bytes" not in site.rows(gpu("GPU-a"))[0]
    found = [site.rows(gpu("GPU-a", fields=total.format(81559))) for _ in range(CONFIRMED)]
    assert [len(rows) for rows in found] == [0] * (CONFIRMED - 1) + [1]
    assert found[-1][0]["memory_bytes"] == 81559 * 2**20
    for size in ("81000", "0", "81560"):  # of another driver; unknown
        assert [site.page(gpu("GPU-a", fields=total.format(size))) for _ in range(5)] == [[]] * 5


def test_a_divided_gpu_has_its_slices() -> None:
    site = Site()
    site.page(gpu("GPU-a") + gpu("GPU-b"))
    divided = gpu("GPU-a", more=',GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"', fields="DCGM_FI_PROF_GR_ENGINE_ACTIVE 0.5")
    divided += gpu("GPU-b", more=',GPU_I_ID="1",GPU_I_PROFILE="1g.6gb"', fields="DCGM_FI_PROF_GR_ENGINE_ACTIVE 0.5")
    for _ in range(CONFIRMED):
        rows = site.rows(divided)
    assert {row["device_id"]: row["units"] for row in rows} == {"GPU-a": 7, "GPU-b": 4}


def test_a_silent_node_removes_nothing_and_no_time_of_its_silence_counts() -> None:
    site = Site()
    both = gpu("GPU-a") + gpu("GPU-b")
    site.page(both)
    assert [site.page("", seconds) for seconds in (GONE_SECONDS * 5, 60, 60)] == [[]] * 3
    assert site.page(gpu("GPU-a")) == [("GPU-a", "available", "n1")]  # the other comes with the next push
    assert site.page(gpu("GPU-b")) == [("GPU-b", "available", "n1")]
    assert [site.page(both) for _ in range(100)] == [[]] * 100


def test_a_device_that_its_node_lacks_for_an_hour_is_gone_and_may_come_back() -> None:
    site = Site()
    other = gpu("GPU-z", "n2")
    site.page(gpu("GPU-a") + gpu("GPU-b") + other)
    last = site.at
    found = [site.rows(gpu("GPU-a") + other) for _ in range(70)]
    assert [len(rows) for rows in found] == [0] * 59 + [1] + [0] * 10
    (row,) = found[59]
    assert (row["device_id"], row["state"], row["ts"].timestamp()) == ("GPU-b", "removed", last)
    assert site.page(gpu("GPU-a") + gpu("GPU-b")) == [("GPU-b", "available", "n1")]
    # The only device of a node: nobody there says that it is gone.
    assert [site.page(gpu("GPU-a")) for _ in range(200)].count([]) == 199  # GPU-b again, GPU-z never


def test_a_restart_tells_again_and_still_notices_who_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "exporter.json"
    memory = Memory(path, ExporterInventory("c"))
    assert memory.inventory is not None
    Site(memory.inventory).page(gpu("GPU-a") + gpu("GPU-b"))
    memory.save()
    again = Memory(path, ExporterInventory("c"))
    assert again.inventory is not None and not again.damaged
    site = Site(again.inventory)
    assert site.page(gpu("GPU-a")) == [("GPU-a", "available", "n1")]
    found = [site.page(gpu("GPU-a")) for _ in range(70)]
    assert found.count([("GPU-b", "removed", "n1")]) == 1 and found.count([]) == 69


def test_who_stands_nearer_tells() -> None:
    assert Site(ExporterInventory("c", without=("nvidia",))).page(gpu("GPU-a")) == []
    hami = 'HostCoreUtilization{deviceuuid="GPU-a",devicetype="L4",nodeid="n1",deviceidx="0"} 5\n'
    assert Site(profile="hami").page(hami) == []  # its register says how it divides them
    amd = 'gpu_gfx_activity{serial_number="S",gpu_id="0",hostname="n1",card_series="MI300X"} 5\n'
    site = Site(ExporterInventory("c", without=("nvidia",)), "amd")
    assert site.page(amd) == [("S", "available", "n1")]


def test_an_exporter_that_is_away_leaves_its_devices_as_they_are(exporter: Exporter) -> None:
    exporter.body = gpu("GPU-a").encode()
    memory = Memory(inventory=ExporterInventory("c"))
    collector = ExporterCollector(exporter.url, cluster="c", period_seconds=60, memory=memory)
    scrape = collector.collect(START)
    assert [row["state"] for row in scrape.collected.rows["devices"]] == ["available"]
    exporter.status = 503
    for n in range(1, 200):
        scrape = collector.collect(START + timedelta(minutes=n))
        assert (
            "devices" not in scrape.collected.rows
            and scrape.observed[0].reading.readings["gpu_utilization"].state == "stale"
        )
    exporter.status = 200
    (row,) = collector.collect(START + timedelta(minutes=300)).collected.rows["devices"]
    assert (row["state"], row["ts"]) == ("available", START + timedelta(minutes=300))
    collector.close()


def test_random_lives_of_devices_against_a_reckoning() -> None:
    """The rows, replayed, say of each device what it truly was, but for the hour that a disappearance takes to be told,
    which begins anew with the process; and there are no more rows than changes, silences and restarts explain."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    rng = random.Random(seed)
    site = Site()
    exporters = {f"n{n}/{half}": [f"GPU-{n}{half}{m}" for m in range(3)] for n in range(2) for half in "ab"}
    of = {device: exporter for exporter, devices in exporters.items() for device in devices}
    instance = dict.fromkeys(exporters, 0)
    here = dict.fromkeys(of, True)
    since, stayed = dict.fromkeys(here, 0), dict.fromkeys(here, 0)
    most, reported, restarted = len(here), 0, 0
    silent, out_until = dict.fromkeys(exporters, 0), dict.fromkeys(exporters, 0)
    said: dict[str, str] = {}
    before: dict[str, str] = {}
    for tick in range(400):
        if rng.random() < 0.004:
            again = ExporterInventory("c")
            again.restore(json.loads(json.dumps(site.inventory.plain())))
            site.inventory, restarted = again, tick
            most += len(here)
        for exporter, devices in exporters.items():
            for device in devices[1:]:  # the first of each exporter stays
                if rng.random() < 0.003:
                    here[device], since[device], stayed[device] = not here[device], tick, tick - since[device]
                    most += 1
            if rng.random() < 0.004:
                out_until[exporter] = tick + rng.randrange(200)
            instance[exporter] += rng.random() < 0.01
        away = {name for name in exporters if tick < out_until[name] or rng.random() < 0.1}
        for exporter, devices in exporters.items():
            if exporter not in away:
                most += len(devices) * (silent[exporter] >= CONFIRMED)  # they are told again
            silent[exporter] = silent[exporter] + 1 if exporter in away else 0
        found = site.rows(
            "".join(
                gpu(name, of[name].partition("/")[0], more=f',job="dcgm",instance="{of[name]}.{instance[of[name]]}"')
                for name in of
                if here[name] and of[name] not in away
            )
        )
        reported += len(found)
        said |= {row["device_id"]: row["state"] for row in found}
        for device, is_here in here.items():
            heard = max(since[device], out_until[of[device]])
            if is_here and tick - heard > 20:
                assert said[device] == "available", (tick, device)
            elif is_here and tick - since[device] > 20 and before.get(device) == "available":
                assert said[device] == "available", (tick, device, "its exporter is silent")
            elif not is_here and tick - max(heard, restarted) > 100:
                assert said.get(device) != "available", (tick, device)
            elif not is_here and tick - since[device] < 50 and stayed[device] > 20:
                assert said.get(device, "removed") == before.get(device, "removed"), (tick, device)
        before = dict(said)
    assert reported <= most


def test_every_profile_says_what_its_devices_are() -> None:
    reported: dict[str, Profile] = {
        name: profile_of(name) for name in ("amd", "ascend", "dcgm", "gaudi", "hami", "tpu")
    }
    assert [name for name, profile in reported.items() if not profile.inventory.reported] == ["hami"]
    assert all(profile.model or profile.identity.model for profile in reported.values())
