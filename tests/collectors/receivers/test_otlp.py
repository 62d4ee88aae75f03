"""OTLP over HTTP: OpenTelemetry's own exporter pushes, and what it pushes becomes rows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from collectors.receivers import assembler
from tests.collectors.receivers.pushing import ONE_NODE, Pushed
from tests.ingest.receiving import TOKEN
from warehouse.store import Store

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
GIB = 1 << 30
GPU = "GPU-5c8d9f1a-0000-1111-2222-333344445555"
MIG = "MIG-0e6c7f5d-0000-1111-2222-333344445555"


Points = list[tuple[str, float, dict[str, Any]]]
"""Metric, value, attributes."""


def request(points: Points, at: float = 0, resource: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """An export as its JSON has it, all of one instant: seconds after NOW."""
    stamp = str(round((NOW.timestamp() + at) * 1e9))
    metrics = []
    for place, (name, value, attributes) in enumerate(points):
        point = {
            "attributes": [{"key": key, "value": {"stringValue": str(text)}} for key, text in attributes.items()],
            "timeUnixNano": str(int(stamp) + place * 3_000_000),  # Go's SDK stamps each metric by itself
            "asDouble": value,
            **more,
        }
        kind = {"sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}}
        metrics.append({"name": name, **(kind if name in COUNTERS else {"gauge": {"dataPoints": [point]}})})
    reported = {"host.name": "n1", "k8s.cluster.name": "c1", **(resource or {})}
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in reported.items()]
    return {
        "resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}],
    }


COUNTERS = ("hw.energy", "hw.errors", "hw.gpu.io")


def push(pushed: Pushed, *requests: dict[str, Any]) -> None:
    for one in requests:
        answer = pushed.otlp(json.dumps(one).encode(), **{"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (200, {})


def samples(store: Store, columns: str = "utilization, memory_used_bytes") -> list[tuple[Any, ...]]:
    key = "device_id, partition_id, workload_id"
    sql = f"SELECT {key}, {columns} FROM samples ORDER BY ts, {key}"
    return [tuple(row.values()) for row in store.rows(sql)]


def test_opentelemetrys_own_exporter_pushes_and_its_gauges_become_samples(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembler, "SECOND_SECONDS", 0.0)  # both exports may be within a second: one instant

    def seen(value: float, **more: str) -> Any:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            yield Observation(
                value, {"hw.id": GPU, "hw.type": "gpu", "hw.vendor": "nvidia", "hw.model": "H100", **more}
            )

        return [observe]

    exporter = OTLPMetricExporter(f"{pushed.url}/v1/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    reported: list[MetricExportResult] = []
    send = exporter.export
    exporter.export = lambda *given, **more: reported.append(send(*given, **more)) or reported[-1]  # type: ignore[method-assign]
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    about = Resource({"host.name": "n1", "k8s.cluster.name": "c1", "k8s.pod.uid": "the collector's own"})
    provider = MeterProvider([reader], resource=about, shutdown_on_exit=False)
    meter = provider.get_meter("gpu")
    meter.create_observable_gauge("hw.gpu.utilization", seen(0.87, **{"hw.gpu.task": "general"}), "1")
    meter.create_observable_gauge("hw.gpu.memory.utilization", seen(0.12), "1")
    meter.create_observable_up_down_counter("hw.gpu.memory.usage", seen(60 * GIB), "By")
    meter.create_observable_up_down_counter("hw.gpu.memory.limit", seen(80 * GIB), "By")
    meter.create_observable_counter("hw.energy", seen(12345.5), "J")
    meter.create_histogram("hw.gpu.latency").record(3)
    provider.force_flush()
    provider.force_flush()
    provider.shutdown()
    assert reported and set(reported) == {MetricExportResult.SUCCESS}
    pushed.assemble()
    columns = "cluster, node, state, utilization, utilization_source, memory_used_bytes, memory_total_bytes"
    assert set(samples(pushed.store, columns)) == {
        (GPU, "", "", "c1", "n1", "ok", 0.87, "gpu_utilization", 60 * GIB, 80 * GIB)
    }


def test_metrics_that_are_stamped_one_after_another_are_one_instant(pushed: Pushed) -> None:
    device = {"hw.id": GPU, "hw.type": "gpu"}
    for at, energy in ((0.0, 1000.0), (14.995, 2500.0)):
        points: Points = [
            ("hw.gpu.utilization", 0.5, device | {"hw.gpu.task": "general"}),
            ("hw.gpu.utilization", 0.9, device | {"hw.gpu.task": "encoder"}),
            ("hw.gpu.memory.usage", 1.0 * GIB, device),
            ("hw.power", 300.0, device),
            ("hw.energy", energy, device),
            ("hw.gpu.io", energy, device | {"network.io.direction": "transmit"}),
        ]
        push(pushed, request(points[:3], at), request(points[3:], at + 0.009))  # a collector may cut a batch anywhere
    pushed.assemble()
    found = samples(
        pushed.store, "round(interval_seconds, 1) AS long, utilization, memory_used_bytes, power_watts, energy_joules"
    )
    assert found == [
        (GPU, "", "", 15.0, 0.5, GIB, 300.0, None),
        (GPU, "", "", 15.0, 0.5, GIB, 300.0, 1500.0),
    ]
    io = "SELECT value FROM metrics WHERE metric = 'pcie_transmit_bytes' AND state = 'ok'"
    assert pushed.store.value(io) == 1500.0


def test_mig_instances_are_parts_of_their_device_and_one_without_is_refused(pushed: Pushed) -> None:
    mig = {"hw.id": MIG, "gpu.parent.uuid": GPU, "gpu.mig.profile": "1g.10gb"}
    points: Points = [
        ("hw.gpu.sm.utilization", 0.25, mig),
        ("hw.gpu.memory.usage", 5.0 * GIB, mig),
        ("hw.gpu.memory.usage", 40.0 * GIB, {"hw.id": GPU, "gpu.parent.uuid": ""}),
    ]
    push(pushed, request(points), request(points, 15))
    lone = request(
        [("hw.gpu.memory.usage", 1.0, {"hw.id": MIG}), ("hw.gpu.memory.usage", 41.0 * GIB, {"hw.id": GPU})], 30
    )
    answer = pushed.otlp(json.dumps(lone).encode(), **{"Content-Type": "application/json"})
    assert answer.json()["partialSuccess"] == {
        "rejectedDataPoints": "1", "errorMessage": "a partition that does not name its device: 1"
    }  # fmt: skip
    pushed.assemble()
    found = samples(pushed.store, "state, utilization, memory_used_bytes")
    assert found[:2] == [(GPU, "", "", "unsupported", None, 40 * GIB), (GPU, MIG, "", "ok", 0.25, 5 * GIB)]
    assert found[4:] == [(GPU, "", "", "blank", None, 41 * GIB)]


def test_processes_of_a_pod_are_its_workload_and_the_reporters_pod_is_not(pushed: Pushed) -> None:
    device = {"hw.id": GPU, "hw.type": "gpu"}
    pod = device | {"k8s.pod.uid": "pod-a"}
    points: Points = [
        ("hw.gpu.utilization", 0.9, device),
        ("process.gpu.utilization", 0.3, pod | {"process.pid": "10"}),
        ("process.gpu.utilization", 0.4, pod | {"process.pid": "11"}),
        ("process.gpu.memory.usage", 1.0 * GIB, pod | {"process.pid": "10"}),
        ("process.gpu.memory.usage", 2.0 * GIB, pod | {"process.pid": "11"}),
        ("process.gpu.memory.usage", 7.0 * GIB, device | {"process.pid": "12"}),  # of the host: nobody's
    ]
    reporter = {"k8s.pod.uid": "collector", "process.pid": "99"}
    push(pushed, request(points, 0, reporter), request(points, 15, reporter))
    own: Points = [("process.gpu.utilization", 0.2, device), ("process.gpu.memory.usage", 3.0 * GIB, device)]
    in_pod = {"k8s.pod.uid": "pod-b", "service.name": "training", "service.instance.id": "b"}
    push(pushed, request(own, 0, in_pod), request(own, 15, in_pod))
    pushed.assemble()
    found = {row for row in samples(pushed.store) if row[2]}
    assert {(row[2], round(row[3], 9), row[4]) for row in found} == {("pod-a", 0.7, 3 * GIB), ("pod-b", 0.2, 3 * GIB)}


def test_other_hardware_and_other_meanings_are_no_use_of_a_gpu(pushed: Pushed) -> None:
    points: Points = [
        ("hw.power", 80.0, {"hw.id": "cpu0", "hw.type": "cpu"}),
        ("hw.temperature", 60.0, {"hw.id": "fan"}),
        ("hw.gpu.memory.utilization", 0.99, {"hw.id": GPU, "hw.type": "gpu"}),
        ("hw.gpu.memory.usage", 1.0 * GIB, {"hw.id": GPU, "hw.type": "gpu"}),
    ]
    push(pushed, request(points), request(points, 15))
    pushed.assemble()
    assert set(samples(pushed.store, "state, utilization")) == {(GPU, "", "", "blank", None)}
    assert pushed.store.value("SELECT count() FROM metrics WHERE value = 0.99") == 0


def test_protobuf_json_and_gzip_say_the_same(pushed: Pushed) -> None:
    from google.protobuf.json_format import ParseDict

    points: Points = [("hw.gpu.utilization", 0.5, {"hw.id": GPU})]
    whole = ParseDict(request(points), ExportMetricsServiceRequest()).SerializeToString()
    packed = gzip.compress(ParseDict(request(points, 15), ExportMetricsServiceRequest()).SerializeToString())
    assert pushed.otlp(whole).content == ExportMetricsServiceResponse().SerializeToString() == b""
    assert pushed.otlp(packed, **{"Content-Encoding": "gzip"}).headers["Content-Type"] == "application/x-protobuf"
    text = gzip.compress(json.dumps(request(points, 30)).encode())
    answer = pushed.otlp(text, **{"Content-Encoding": "gzip", "Content-Type": "application/json; charset=utf-8"})
    assert answer.json() == {}
    pushed.assemble()
    assert samples(pushed.store, "utilization") == [(GPU, "", "", 0.5)] * 3


def test_what_cannot_be_read_is_refused_and_counted(pushed: Pushed) -> None:
    device = {"hw.id": GPU}
    points: Points = [("hw.gpu.utilization", 0.5, device)]
    late = request(points, 7200)
    delta = request([("hw.energy", 5.0, device)])
    delta["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["aggregationTemporality"] = 1
    empty = request(points)
    del empty["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["gauge"]["dataPoints"][0]["asDouble"]
    elsewhere = request(points, 0, {"k8s.cluster.name": "c2"})
    for one, why, token in (
        (late, "a time more than an hour ahead", TOKEN),
        (delta, "not cumulative", TOKEN),
        (empty, "without a value", TOKEN),
        (elsewhere, "cluster 'c2' is not the sender's", ONE_NODE),
    ):
        answer = pushed.otlp(json.dumps(one).encode(), token, **{"Content-Type": "application/json"})
        assert why in answer.json()["partialSuccess"]["errorMessage"]
    assert pushed.store.value("SELECT count() FROM pushed_points") == 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"rubbish", {}, 400),
        (b"\x12\x03abc", {}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": "application/json", "Content-Encoding": "zstd"}, 415),
        (b"[]", {"Content-Type": "application/json"}, 400),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 400),
        (b'{"resourceMetrics": "x"}', {"Content-Type": "application/json"}, 400),
        (b'{"resourceMetrics": ["x"]}', {"Content-Type": "application/json"}, 400),
        (b'{"resourceMetrics": [{}, []]}', {"Content-Type": "application/json"}, 400),
        (
            b'{"resource_metrics": [{"scopeMetrics": [{"metrics": [{"gauge": []}]}]}]}',
            {"Content-Type": "application/json"},
            400,
        ),
        (b'{"a": "\xff"}', {"Content-Type": "application/json"}, 400),
        (b"not gzip", {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"\x00" * (40 << 20)), {"Content-Encoding": "gzip"}, 413),
        (b" " * (5 << 20), {}, 413),
    ],
)
def test_a_body_that_is_none_is_refused(pushed: Pushed, body: bytes, headers: dict[str, str], status: int) -> None:
    answer = pushed.otlp(body, **headers)
    assert answer.status_code == status and "Traceback" not in answer.text


def test_the_end_of_a_series_is_no_value(pushed: Pushed) -> None:
    points: Points = [("hw.gpu.utilization", 0.5, {"hw.id": GPU}), ("hw.gpu.utilization", 0.6, {"hw.id": "GPU-1"})]
    push(pushed, request(points), request(points, 15), request(points[:1], 30))
    push(pushed, request(points[1:], 30, flags=1))
    pushed.assemble()
    assert samples(pushed.store, "state, utilization")[4:] == [
        ("GPU-1", "", "", "stale", None),
        (GPU, "", "", "ok", 0.5),
    ]


def test_a_device_that_is_not_well_is_a_finding_when_it_begins(pushed: Pushed) -> None:
    device = {"hw.id": GPU, "hw.type": "gpu"}

    def reported(at: float, degraded: float, failed: float) -> dict[str, Any]:
        points: Points = [
            ("hw.gpu.utilization", 0.5, device),
            ("hw.status", degraded, device | {"hw.state": "degraded"}),
            ("hw.status", failed, device | {"hw.state": "failed"}),
            ("hw.status", 1, device | {"hw.state": "ok"}),
            ("hw.status", 1, {"hw.id": GPU, "hw.type": "fan", "hw.state": "failed"}),
        ]
        return request(points, at)

    push(pushed, reported(0, 0, 0), reported(15, 1, 0), reported(30, 1, 0), reported(45, 0, 1), reported(60, 1, 0))
    pushed.assemble()
    found = pushed.store.rows("SELECT ts, device_id, finding, severity, message, node FROM findings ORDER BY ts")
    about = {"device_id": GPU, "finding": "device_unhealthy", "node": "n1"}
    assert [round(row.pop("ts").timestamp() - NOW.timestamp()) for row in found] == [15, 45, 60]
    assert found == [
        about | {"severity": severity, "message": f"hw.status: {state}"}
        for severity, state in (("warning", "degraded"), ("critical", "failed"), ("warning", "degraded"))
    ]
