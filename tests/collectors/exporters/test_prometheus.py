"""Reading what a Prometheus has scraped: whose pod a label names, by either honorLabels, and nothing repeated."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.memory import Memory
from collectors.exporters.observations import Holder, Reader
from collectors.exporters.profile import profile_of
from collectors.exporters.prometheus import PrometheusCollector, read_result
from collectors.exporters.rows import rows
from collectors.exporters.scrape import AGAIN_SECONDS, Scrape
from collectors.exporters.tracker import Tracker
from tests.collectors.exporters.serving import Exporter, serving
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
AICR = "nvidia-dcgm-exporter/nvidia-aicr-eks-h100/prometheus_query_DCGM_FI_DEV_{}.json"
VLLM = Holder("dynamo-workload", "vllm-agg-0-vllmdecodeworker-s65j5")


@pytest.mark.parametrize("honor_labels", [True, None])
def test_fifteen_of_the_sixteen_recorded_gpus_are_nobodys(
    recorded: Callable[[str], str], honor_labels: bool | None
) -> None:
    """Acceptance 1: their `pod` is the exporter's own, which Prometheus filled in; 1015.6 W are not gpu-operator's."""
    series = []
    for metric in ("FB_USED", "GPU_TEMP", "GPU_UTIL", "POWER_USAGE"):
        result = read_result(recorded(AICR.format(metric)))
        assert not result.dropped
        series += [one for some in result.at.values() for one in some]
    at = NOW.timestamp()
    seen = Reader(profile_of("dcgm")).read(series, at, honor_labels=honor_labels)
    assert (len(series), seen.used, sum(seen.dropped.values())) == (64, 64, 0)
    observed = Tracker("NVIDIA", 30).advance(seen)
    assert len(observed) == 16
    (held,) = [one for one in observed if one.holders]
    assert held.sole_holder == VLLM
    watts = {one.reading.device_id: one.reading.readings["power_watts"].value or 0 for one in observed}
    assert watts.pop(held.reading.device_id) == 113.611
    assert sum(watts.values()) == pytest.approx(1015.601)
    assert {one.node for one in observed} == {"gpu-node-1", "gpu-node-2"}
    # Acceptance 2: it holds 74166 MiB and does nothing, which is neither unallocated nor active.
    made = rows(
        observed, uid_of=lambda namespace, pod: "uid-1" if (namespace, pod) == (VLLM.namespace, VLLM.pod) else ""
    )
    (mine,) = [row for row in made.rows["samples"] if row["workload_id"]]
    assert (mine["workload_id"], mine["device_id"]) == ("uid-1", held.reading.device_id)
    assert (mine["state"], mine["utilization"], mine["memory_used_bytes"]) == ("ok", 0.0, 74166 * 1048576)
    assert len(made.rows["samples"]) == 17 and not made.dropped


# --- a fake of the API


def series(name: str, values: list[tuple[datetime, str]], **labels: str) -> dict[str, Any]:
    metric = {"__name__": name, "UUID": "GPU-a", "instance": "10.0.0.1:9400", "job": "gpus"} | labels
    return {"metric": metric, "values": [[at.timestamp(), value] for at, value in values]}


class Api:
    """Answers as Prometheus does, with the samples in the range that the query names."""

    def __init__(self, *found: dict[str, Any], targets: tuple[dict[str, str], ...] = ()) -> None:
        self.found, self.targets, self.queries = list(found), targets, []  # type: list[dict[str, Any]], Any, list[str]
        self.down: set[str] = set()

    def up(self, target: dict[str, str]) -> str:
        return "0" if target["instance"] in self.down else "1"

    def __call__(self, path: str) -> bytes:
        if path.endswith("/label/__name__/values"):
            return json.dumps({"status": "success", "data": [one["metric"]["__name__"] for one in self.found]}).encode()
        asked = {name: texts[0] for name, texts in parse_qs(urlsplit(path).query).items()}
        self.queries.append(asked["query"])
        until = float(asked["time"])
        if asked["query"].startswith("up{"):
            some = [{"metric": {"__name__": "up", **one}, "value": [until, self.up(one)]} for one in self.targets]
            return json.dumps({"status": "success", "data": {"resultType": "vector", "result": some}}).encode()
        since = until - float(asked["query"].rsplit("[", 1)[1].rstrip("s]"))
        some = [
            {**one, "values": [value for value in one["values"] if since <= value[0] <= until]} for one in self.found
        ]
        result = [one for one in some if one["values"]]
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def utilization(scrape: Scrape) -> list[tuple[datetime, str, float | None]]:
    readings = [(one.ts, one.reading.readings["gpu_utilization"]) for one in scrape.observed]
    return [(ts, reading.state, reading.value) for ts, reading in readings]


def test_each_raw_sample_counts_once_at_its_own_instant(exporter: Exporter) -> None:
    busy = series("DCGM_FI_DEV_GPU_UTIL", [(ago(50), "10"), (ago(20), "20"), (ago(-10), "30")])
    api = exporter.route = Api(busy)
    collector = PrometheusCollector(exporter.url, selector='cluster="a"')
    assert utilization(collector.collect(NOW)) == [(ago(50), "ok", 0.1), (ago(20), "ok", 0.2)]
    assert utilization(collector.collect(NOW + timedelta(seconds=30))) == [(ago(-10), "ok", 0.3)]
    assert all('cluster="a"' in query for query in api.queries)
    assert "DCGM_FI_DEV_GPU_UTIL_RATIO|" in api.queries[1] and api.queries[1].endswith("[60s]")


def test_a_device_that_is_no_longer_scraped_is_stale_and_not_what_it_was(exporter: Exporter) -> None:
    """An instant query would repeat the last value for five minutes."""
    exporter.route = Api(series("DCGM_FI_DEV_GPU_UTIL", [(ago(10), "90")]))
    collector = PrometheusCollector(exporter.url)
    assert utilization(collector.collect(NOW)) == [(ago(10), "ok", 0.9)]
    assert utilization(collector.collect(ago(-20))) == []  # it may still come
    assert utilization(collector.collect(ago(-60))) == [(ago(-60), "stale", None)]
    gone = collector.collect(ago(-3700))
    reported = [(row["finding"], row["message"]) for row in gone.collected.rows["findings"]]
    assert reported == [
        ("source_unreachable", "gpus/10.0.0.1:9400: nothing came of its 1 device"),
        ("inventory_changed", "the exporter names it no longer"),
    ]
    assert collector.collect(ago(-3730)).observed == []


def test_the_targets_own_pod_is_known_from_up_whatever_it_is_called(exporter: Exporter) -> None:
    """honorLabels true: an exporter under another name, beside a pod that does hold a GPU."""
    target = {"job": "gpus", "instance": "10.0.0.1:9400", "namespace": "ops", "pod": "gpu-metrics-7x"}
    workload = {"job": "vllm", "instance": "10.0.0.9:8000", "namespace": "ml", "pod": "train-0"}
    free = series("DCGM_FI_DEV_GPU_UTIL", [(ago(5), "0")], namespace="ops", pod="gpu-metrics-7x")
    held = series("DCGM_FI_DEV_GPU_UTIL", [(ago(5), "9")], UUID="GPU-b", namespace="ml", pod="train-0")
    exporter.route = Api(free, held, targets=(target, workload))
    scrape = PrometheusCollector(exporter.url).collect(NOW)
    assert {one.reading.device_id: one.holders for one in scrape.observed} == {
        "GPU-a": (),
        "GPU-b": (Holder("ml", "train-0"),),
    }


def test_a_prometheus_that_is_away_or_says_no_is_a_finding(exporter: Exporter) -> None:
    exporter.route = Api(series("DCGM_FI_DEV_GPU_UTIL", [(ago(10), "90")]))
    collector = PrometheusCollector(exporter.url, cluster="c")
    collector.collect(NOW)
    exporter.route, exporter.body = None, b'{"status":"error","errorType":"bad_data","error":"parse error"}'
    scrape = collector.collect(ago(-60))
    assert scrape.up == {exporter.url: False} and utilization(scrape) == [(ago(-60), "stale", None)]
    assert "Prometheus says: parse error" in scrape.collected.rows["findings"][0]["message"]
    exporter.status = 422
    assert "HTTP 422" in collector.collect(ago(-90)).collected.rows["findings"][0]["message"]
    exporter.status, exporter.route = 200, Api(series("DCGM_FI_DEV_GPU_UTIL", [(ago(-70), "50")]))
    assert utilization(collector.collect(ago(-100))) == [(ago(-70), "ok", 0.5)]  # what came meanwhile is not lost


def dead(scrape: Scrape) -> list[str]:
    rows = scrape.collected.rows.get("findings", [])
    return [row["message"] for row in rows if row["finding"] == "source_unreachable"]


def test_an_exporter_that_died_behind_a_prometheus_is_a_finding_and_no_zero(exporter: Exporter) -> None:
    """Three died: one that Prometheus cannot scrape, one that answers without its device, one that is no target now."""
    names = [f"10.0.0.{n}:9400" for n in range(1, 5)]
    alive = [(ago(10 - 30 * n), "50") for n in range(200)]
    api = exporter.route = Api(
        *(
            series(
                "DCGM_FI_DEV_GPU_UTIL",
                alive if n == 0 else [(ago(10), "50")],
                UUID=f"GPU-{n}",
                instance=name,
                modelName="L4",
            )
            for n, name in enumerate(names)
        ),
        targets=tuple({"job": "gpus", "instance": name} for name in names),
    )
    memory = Memory(inventory=ExporterInventory("c"))
    collector = PrometheusCollector(exporter.url, cluster="c", memory=memory)
    first = collector.collect(NOW)
    assert len(first.collected.rows["devices"]) == 4 and not dead(first)
    api.targets, api.down = api.targets[:3], {names[1]}
    second = collector.collect(ago(-90))
    assert dead(second) == [
        "gpus/10.0.0.2:9400: Prometheus cannot scrape it (up is 0)",
        "gpus/10.0.0.3:9400: says nothing of 1 device that it had, although Prometheus scrapes it",
        "gpus/10.0.0.4:9400: nothing came of its 1 device, and Prometheus no longer scrapes it",
    ]
    states = {one.reading.device_id: one.reading.readings["gpu_utilization"] for one in second.observed}
    assert {device: reading.state for device, reading in states.items()} == {
        "GPU-0": "ok",
        **dict.fromkeys(("GPU-1", "GPU-2", "GPU-3"), "stale"),
    }
    assert "devices" not in second.collected.rows  # whether they are free, nobody knows
    assert not dead(collector.collect(ago(-120)))  # not with every look
    assert len(dead(collector.collect(ago(-90 - AGAIN_SECONDS)))) == 3
    hours = [dead(collector.collect(ago(-90 - 600 * n))) for n in range(1, 30)]
    assert hours[-1] == [
        "gpus/10.0.0.2:9400: Prometheus cannot scrape it (up is 0)"
    ]  # of the others nothing is known now
    api.down = set()
    assert not dead(collector.collect(ago(-90 - 600 * 30)))


def test_a_target_that_was_away_may_be_another_version(exporter: Exporter) -> None:
    values = [(ago(70), "2"), (ago(40), "1"), (ago(-80), "1"), (ago(-110), "3"), (ago(-140), "1")]
    target = {"job": "gpus", "instance": "10.0.0.1:9400"}
    api = exporter.route = Api(series("DCGM_FI_DEV_GPU_UTIL", values), targets=(target,))
    collector = PrometheusCollector(exporter.url)
    found = utilization(collector.between(ago(90), NOW))
    api.down = {"10.0.0.1:9400"}
    collector.collect(NOW)
    api.down = set()
    found += utilization(collector.between(NOW, ago(-150)))
    assert [value for _, _, value in found] == [0.02, 0.01, None, 0.03, 0.01]


def test_a_target_that_never_answered_is_missed_where_its_job_is_gpus_alone(exporter: Exporter) -> None:
    gpus, pods = (
        [{"job": "gpus", "instance": f"g{n}"} for n in (1, 2)],
        [{"job": "pods", "instance": f"p{n}"} for n in (1, 2, 3)],
    )
    found = [series("DCGM_FI_DEV_GPU_UTIL", [(ago(5), "9")], **one, UUID=one["instance"]) for one in (gpus[0], pods[0])]
    api = exporter.route = Api(*found, targets=(*gpus, *pods))
    api.down = {"g2", "p3"}  # p2 answers and has no GPU: p3 may be anything
    scrape = PrometheusCollector(exporter.url).collect(NOW)
    assert dead(scrape) == ["gpus/g2: Prometheus cannot scrape it (up is 0)"]


def test_a_prometheus_without_gpus_says_so(exporter: Exporter) -> None:
    exporter.route = Api(series("node_load1", [(NOW, "1")]))
    scrape = PrometheusCollector(exporter.url, profiles=["dcgm", "amd"]).collect(NOW)
    assert "no metric that a profile recognises (of dcgm, amd)" in scrape.collected.rows["findings"][0]["message"]
    with pytest.raises(CollectorError, match="not an http or https URL"):
        PrometheusCollector("prometheus:9090")


def test_a_day_is_read_again_hour_by_hour(exporter: Exporter) -> None:
    values = [(ago(7200 - 30 * n), str(n % 100)) for n in range(240)]
    api = exporter.route = Api(series("DCGM_FI_DEV_GPU_UTIL", values))
    scrape = PrometheusCollector(exporter.url, profiles=["dcgm"]).between(ago(7200), NOW)
    assert [one.ts for one in scrape.observed] == [at for at, _ in values]
    assert {one.interval_seconds for one in scrape.observed} == {30.0}
    assert len(api.queries) == 3  # `up` and two hours


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SERIES = st.fixed_dictionaries(
    {},
    optional={
        "metric": st.dictionaries(st.sampled_from(["__name__", "UUID", "pod"]), st.text(max_size=5) | JSON) | JSON,
        "value": st.tuples(st.floats() | JSON, st.sampled_from(["1", "NaN", "x", "9" * 5000]) | JSON) | JSON,
        "values": st.lists(st.tuples(st.floats() | JSON, st.just("5") | JSON), max_size=3) | JSON,
    },
)


@given(
    JSON
    | st.fixed_dictionaries(
        {
            "status": st.just("success"),
            "data": st.fixed_dictionaries(
                {"resultType": st.sampled_from(["matrix", "vector"]), "result": st.lists(SERIES | JSON, max_size=4)}
            ),
        }
    )
)
def test_any_answer_is_read_or_refused(answer: object) -> None:
    try:
        result = read_result(json.dumps(answer))
    except ValueError as mistake:
        assert str(mistake)
        return
    reader = Reader(profile_of("dcgm"))
    for at, some in result.at.items():
        assert reader.read(some, at).used <= len(some)


# --- the real one


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes one exporter under two jobs, honor_labels true and false; its URL."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no prometheus binary here (Debian: prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    with serving() as exporter:
        port = free_port()
        exporter.body = (
            b'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-held",Hostname="n1",pod="train-0",namespace="ml",container="main"} 70\n'
            b'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-free",Hostname="n1"} 0\n'
            b'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-old",Hostname="n1",pod="",namespace="",container=""} 0\n'
        )
        own = {"pod": "device-metrics-x2x", "namespace": "ops", "container": "exporter"}
        jobs = [
            {
                "job_name": f"honor-{str(honor).lower()}",
                "honor_labels": honor,
                "static_configs": [{"targets": [urlsplit(exporter.url).netloc], "labels": own}],
            }
            for honor in (True, False)
        ]
        config = {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    binary,
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def scraped(url: str, job: str, honor_labels: bool | None) -> Scrape:
    """What it has scraped; it needs a moment."""

    def enough() -> Scrape | None:
        collector = PrometheusCollector(
            url, profiles=["dcgm"], selector=f'job="{job}"', period_seconds=5, honor_labels=honor_labels
        )
        scrape = collector.collect(datetime.now(UTC))
        collector.close()
        return scrape if scrape.up[url] and len({one.ts for one in scrape.observed}) >= 3 else None

    found = until(enough, every=0.1)
    assert found is not None
    return found


@pytest.mark.parametrize("job", ["honor-true", "honor-false"])
@pytest.mark.parametrize("reported", [True, False], ids=["reported", "found-out"])
def test_a_real_prometheus_tells_who_holds_what_by_either_honor_labels(
    prometheus: str, job: str, reported: bool
) -> None:
    scrape = scraped(prometheus, job, (job == "honor-true") if reported else None)
    holders = {one.reading.device_id: one.holders for one in scrape.observed}
    assert holders == {"GPU-held": (Holder("ml", "train-0"),), "GPU-free": (), "GPU-old": ()}
    assert {one.reading.readings["gpu_utilization"].value for one in scrape.observed} == {0.7, 0.0}
    assert {one.node for one in scrape.observed} == {"n1"}
    instants = [one.ts for one in scrape.observed if one.reading.device_id == "GPU-held"]
    assert instants == sorted(set(instants)) and not scrape.collected.dropped["seen before"]


def test_a_real_prometheus_names_what_it_has_and_refuses_nonsense(prometheus: str) -> None:
    scraped(prometheus, "honor-true", None)
    collector = PrometheusCollector(prometheus, selector="this is no matcher")
    scrape = collector.collect(datetime.now(UTC))
    assert "HTTP 400" in scrape.collected.rows["findings"][0]["message"]
    assert httpx.get(f"{prometheus}/-/healthy").status_code == 200
