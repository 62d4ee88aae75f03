"""Asking real exporters over HTTP: one that is away makes devices stale, never idle; nothing counts twice."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collectors.errors import CollectorError
from collectors.exporters.fetching import Access
from collectors.exporters.observations import Holder
from collectors.exporters.scrape import ExporterCollector, Scrape
from collectors.exporters.tracker import Measurement
from collectors.readings import Reading
from collectors.services.scrape import Service, ServiceCollector, Target
from tests.certificates import self_signed
from tests.collectors.exporters.serving import Exporter, serving
from tests.patience import PATIENCE_SECONDS

START = datetime(2026, 10, 1, 12, tzinfo=UTC)
LABELS = 'gpu="0",UUID="GPU-a",modelName="NVIDIA L4",Hostname="n1"'
FORGED = (
    f'DCGM_FI_DEV_GPU_UTIL{{{LABELS},GPU_I_ID="3",GPU_I_PROFILE="1g.10gb",namespace="v",pod="victim",pod_uid="u"'
    ',container="main",namespace="ml",pod="train-0"} 57\n'
)
BUSY = f"DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 80\n"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def energy(millijoules: int) -> bytes:
    return f"# TYPE E counter\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{LABELS}}} {millijoules}\n{BUSY}".encode()


def only(scrape: Scrape) -> Measurement:
    (one,) = scrape.observed
    return one


def gained(scrape: Scrape) -> Reading:
    return only(scrape).reading.readings["energy_joules"]


def test_a_scrape_gives_devices_with_the_agents_node(exporter: Exporter) -> None:
    exporter.body = BUSY.encode()
    collector = ExporterCollector(exporter.url + "/metrics", node="gpu-node-7")
    scrape = collector.collect(START)
    (reading,) = scrape.devices
    assert (reading.device_id, reading.vendor, reading.model, reading.index) == ("GPU-a", "NVIDIA", "NVIDIA L4", 0)
    assert reading.readings["gpu_utilization"] == Reading("ok", 0.8, "DCGM_FI_DEV_GPU_UTIL")
    assert (only(scrape).node, only(scrape).ts, only(scrape).interval_seconds) == ("gpu-node-7", START, 15.0)
    assert scrape.up == {exporter.url + "/metrics": True} and "findings" not in scrape.collected.rows
    collector.close()


def test_energy_is_what_was_drawn_in_the_interval_across_restarts_and_gaps(exporter: Exporter) -> None:
    collector = ExporterCollector(exporter.url)
    exporter.body = energy(1_000_000)
    assert gained(collector.collect(START)).state == "blank"  # nothing to compare with
    exporter.body = energy(4_000_000)
    assert gained(collector.collect(after(15))).value == 3000.0
    assert gained(collector.collect(after(30))).value == 0.0
    exporter.body = energy(1_500_000)  # the driver was loaded anew: so much since
    scrape = collector.collect(after(40))
    assert (gained(scrape).value, only(scrape).interval_seconds) == (1500.0, 10.0)
    exporter.body = energy(7_500_000)  # 6000 J in 60 s, of which this interval is 15
    scrape = collector.collect(after(100))
    assert (gained(scrape).value, only(scrape).interval_seconds) == (1500.0, 15.0)
    exporter.body = energy(999_000_000)  # 60 kW
    assert gained(collector.collect(after(115))).state == "blank"
    exporter.body = energy(999_100_000)
    assert gained(collector.collect(after(115 + 3601))).state == "blank"  # too long ago to compare with


def test_an_exporter_that_is_away_makes_its_devices_stale_and_is_found(exporter: Exporter) -> None:
    exporter.body = energy(1)
    collector = ExporterCollector(exporter.url, node="n1", cluster="c")
    collector.collect(START)
    exporter.status = 503
    exporter.body = b"hostengine is gone"
    scrape = collector.collect(after(15))
    assert {reading.state for reading in only(scrape).reading.readings.values()} == {"stale"}
    assert all(reading.value is None for reading in only(scrape).reading.readings.values())
    (finding,) = scrape.collected.rows["findings"]
    assert (finding["finding"], finding["ts"], finding["cluster"]) == ("source_unreachable", after(15), "c")
    assert finding["message"] == f"{exporter.url}: HTTP 503 hostengine is gone"
    assert scrape.up == {exporter.url: False}
    assert "findings" not in collector.collect(after(30)).collected.rows  # said already
    assert len(collector.collect(after(400)).collected.rows["findings"]) == 1
    exporter.status, exporter.body = 200, energy(2)
    assert only(collector.collect(after(415))).reading.readings["gpu_utilization"].value == 0.8


@pytest.mark.parametrize("body", [b"", b"# nothing\n", b"go_goroutines 5\n", b"DCGM_FI_DEV_GPU_UTIL 0\n", b"<html>\n"])
def test_an_answer_without_devices_is_no_quiet_one(exporter: Exporter, body: bytes) -> None:
    exporter.body = BUSY.encode()
    collector = ExporterCollector(exporter.url)
    collector.collect(START)
    exporter.body = body
    scrape = collector.collect(after(15))
    assert only(scrape).reading.readings["gpu_utilization"] == Reading("stale", None, "DCGM_FI_DEV_GPU_UTIL")
    assert scrape.up == {exporter.url: False}
    assert "without a device" in scrape.collected.rows["findings"][0]["message"]


def test_an_address_without_a_server_is_a_finding(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
    scrape = ExporterCollector(url).collect(START)
    assert scrape.observed == [] and "refused" in scrape.collected.rows["findings"][0]["message"]


def test_an_answer_is_bounded_in_size_and_time(exporter: Exporter) -> None:
    exporter.body = b"x 1\n" * 100_000
    scrape = ExporterCollector(exporter.url, access=Access(max_bytes=10_000)).collect(START)
    assert "more than 10000 bytes" in scrape.collected.rows["findings"][0]["message"]
    exporter.body, exporter.headers = gzip.compress(b"x 1\n" * 100), {"Content-Encoding": "gzip"}
    scrape = ExporterCollector(exporter.url).collect(START)
    assert "gzip, which was not asked for" in scrape.collected.rows["findings"][0]["message"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        scrape = ExporterCollector(url, access=Access(timeout_seconds=0.05)).collect(START)
    assert "not answered in full after 0.05 s" in scrape.collected.rows["findings"][0]["message"]


def test_headers_that_come_letter_by_letter_are_no_answer() -> None:
    """As found: each letter was within the limit of a read, and the source waited for ever."""
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        peer, _ = server.accept()
        with peer, contextlib.suppress(OSError):
            peer.sendall(b"HTTP/1.1 200 OK\r\nX-")
            while not over.wait(0.02):
                peer.sendall(b"y")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        scrape = ExporterCollector(url, access=Access(timeout_seconds=0.2)).collect(START)
        over.set()
    assert "not answered in full after 0.2 s" in scrape.collected.rows["findings"][0]["message"]


@pytest.mark.parametrize("hours", [1, -1])
def test_after_a_clock_was_set_values_go_on_and_counters_start_over(exporter: Exporter, hours: int) -> None:
    """As found: a clock that was an hour ahead was set right, and for an hour all was `seen before`."""
    collector = ExporterCollector(exporter.url)
    gains = []
    for number, seconds in enumerate((0, 15, 30, 45 + 3600 * hours, 60 + 3600 * hours)):
        exporter.body = energy(5_000_000 + 4_500_000 * number)
        one = only(collector.collect(after(seconds)))
        assert (one.ts, one.interval_seconds) == (after(seconds), 15.0)
        assert one.reading.readings["gpu_utilization"].value == 0.8
        gains.append(one.reading.readings["energy_joules"].value)
    assert gains == [None, 4500.0, 4500.0, None, 4500.0]


def test_pages_are_asked_for_together(exporter: Exporter) -> None:
    """As found: of five exporters four hung, and the fifth was read every 40 s, 30 s after the tick that it was said
    to be of. Here none answers before all have been asked."""
    everybody = threading.Barrier(3)

    def together(_: str) -> bytes:
        everybody.wait(PATIENCE_SECONDS)
        return BUSY.encode()

    exporter.route = together
    access = Access(timeout_seconds=PATIENCE_SECONDS)
    urls = [f"{exporter.url}/{number}" for number in range(3)]
    scrape = ExporterCollector(urls, access=access).collect(START)
    assert scrape.up == dict.fromkeys(urls, True)
    exporter.route = lambda path: together(path).replace(b"DCGM_FI_DEV_GPU_UTIL", b"vllm:num_requests_running")
    replicas = tuple(Target(url, workload_id=url) for url in urls)
    services = ServiceCollector([Service("chat", replicas, profile="vllm")], access=access)
    rows = services.collect(START).rows
    assert len(rows["service_levels"]) == 3 and "findings" not in rows


def test_labels_that_a_pods_user_may_write_make_no_device_another(exporter: Exporter) -> None:
    """dcgm-exporter repeats a pod's labels behind its own, by whatever name: none may rename the device or its model,
    which has a price, nor hide it, for a device that is gone is nobody's charge."""
    own = 'gpu="0",UUID="GPU-1",modelName="NVIDIA H100",Hostname="n1"'
    forged = [
        'UUID="GPU-2"', 'uuid="GPU-2"', 'exported_UUID="GPU-2"', 'gpu_uuid="GPU-2"', 'modelName="T4"', 'modelname="T4"',
        'exported_modelName="T4"', 'model_name="T4"', 'Hostname="n2"', 'hostname="n2"', 'GPU="7"',
        ",".join(f'a{n}="x"' for n in range(300)), f'a="{"x" * 5000}"',
    ]  # fmt: skip
    for labels in forged:
        exporter.body = f"DCGM_FI_DEV_GPU_UTIL{{{own},{labels}}} 57\n".encode()
        collector = ExporterCollector(exporter.url, profile="dcgm")
        (one,) = collector.collect(START).observed
        found = one.reading
        assert (found.device_id, found.model, found.index, one.node) == ("GPU-1", "NVIDIA H100", 0, "n1"), labels
        assert found.readings["gpu_utilization"].value == 0.57


def test_a_pods_own_labels_do_not_name_the_holder_of_a_device(exporter: Exporter) -> None:
    exporter.body = FORGED.encode()
    collector = ExporterCollector(exporter.url, profile="dcgm")
    (one,) = collector.collect(START).observed
    assert one.holders == (Holder("ml", "train-0"),) and one.reading.partition_id == ""


def test_an_answer_that_breaks_off_is_no_answer(exporter: Exporter) -> None:
    exporter.body, exporter.headers = BUSY.encode(), {"Content-Length": "100000"}
    scrape = ExporterCollector(exporter.url, access=Access(timeout_seconds=0.3)).collect(START)
    assert scrape.observed == [] and scrape.up == {exporter.url: False}


def test_a_token_is_read_each_time_and_never_shown(exporter: Exporter, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    exporter.body = BUSY.encode()
    collector = ExporterCollector(exporter.url, access=Access(token_file=token))
    collector.collect(START)
    token.write_text("second\n")
    collector.collect(after(15))
    assert [asked["authorization"] for asked in exporter.asked] == ["Bearer first", "Bearer second"]
    assert "text/plain" in exporter.asked[0]["accept"] and "openmetrics" not in exporter.asked[0]["accept"]
    token.unlink()
    scrape = collector.collect(after(30))
    assert "cannot be read" in scrape.collected.rows["findings"][0]["message"]
    token.write_text("se\ncret")
    message = collector.collect(after(45)).collected.rows["findings"][0]["message"]
    assert "is no token" in message and "cret" not in message


def test_a_certificate_counts_only_with_its_authority(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with serving(tls) as exporter:
        exporter.body = BUSY.encode()
        assert ExporterCollector(exporter.url, access=Access(ca_file=certificate)).collect(START).up[exporter.url]
        stranger = ExporterCollector(exporter.url).collect(START)
        assert "certificate verify failed" in stranger.collected.rows["findings"][0]["message"]


def test_configuration_that_cannot_work_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match=r"exporter 'localhost:9400': not an http or https URL"):
        ExporterCollector("localhost:9400")
    with pytest.raises(CollectorError, match=r"profile 'nvidia': unknown"):
        ExporterCollector("http://localhost:9400", profile="nvidia")
    with pytest.raises(CollectorError, match=r"ca_file .*none.pem: not usable"):
        ExporterCollector("https://localhost:9400", access=Access(ca_file=tmp_path / "none.pem"))


def test_a_device_that_is_no_longer_named_is_stale_once_and_found(exporter: Exporter) -> None:
    other = BUSY.replace("GPU-a", "GPU-b")
    exporter.body = (BUSY + other).encode()
    collector = ExporterCollector(exporter.url)
    assert len(collector.collect(START).observed) == 2
    exporter.body = BUSY.encode()
    scrape = collector.collect(after(15))
    states = {one.reading.device_id: one.reading.readings["gpu_utilization"].state for one in scrape.observed}
    assert states == {"GPU-a": "ok", "GPU-b": "stale"}
    (finding,) = scrape.collected.rows["findings"]
    assert (finding["finding"], finding["device_id"]) == ("inventory_changed", "GPU-b")
    assert len(collector.collect(after(30)).observed) == 1


def test_a_value_that_the_exporter_has_not_refreshed_counts_once(exporter: Exporter) -> None:
    def body(at: datetime) -> bytes:
        return f'npu_chip_info_utilization{{id="0",model_name="910B"}} 40 {at.timestamp() * 1000:.0f}\n'.encode()

    exporter.body = body(after(-3))
    collector = ExporterCollector(exporter.url, node="n1")
    first = collector.collect(START)
    assert only(first).ts == after(-3)
    again = collector.collect(after(15))
    assert again.observed == [] and again.collected.dropped == {"seen before": 1}
    exporter.body = body(after(27))
    last = collector.collect(after(30))
    assert (only(last).ts, only(last).interval_seconds) == (after(27), 30.0)
    late = collector.collect(after(70))  # the exporter has stopped to ask its driver
    assert only(late).reading.readings["gpu_utilization"].state == "stale"


def test_several_exporters_are_asked_each_by_its_own_profile(exporter: Exporter) -> None:
    def route(path: str) -> bytes:
        return BUSY.encode() if path == "/dcgm" else b'duty_cycle{accelerator_id="i-0",model="v5"} 10\n'

    exporter.route = route
    scrape = ExporterCollector([exporter.url + "/dcgm", exporter.url + "/tpu"], node="n1").collect(START)
    assert [(one.reading.vendor, one.reading.device_id) for one in scrape.observed] == [
        ("NVIDIA", "GPU-a"),
        ("Google", "i-0"),
    ]


def test_a_new_xid_is_found_and_one_that_stays_is_not(exporter: Exporter) -> None:
    def collect(code: int, seconds: float) -> list[object]:
        exporter.body = f"DCGM_FI_DEV_XID_ERRORS{{{LABELS}}} {code}\n".encode()
        return collector.collect(after(seconds)).collected.rows.get("findings", [])

    collector = ExporterCollector(exporter.url)
    assert collect(43, 0) == [] and collect(43, 15) == []
    (finding,) = collect(79, 30)
    assert isinstance(finding, dict) and (finding["finding"], finding["message"]) == ("xid", "XID 79")
    assert collect(79, 45) == [] and collect(0, 60) == []


def test_holders_that_come_and_go_share_the_device(exporter: Exporter) -> None:
    """Without virtual GPUs, dcgm-exporter names whichever pod of a shared device the kubelet lists last."""

    def holder(pod: str, seconds: float) -> Measurement:
        exporter.body = f'DCGM_FI_DEV_GPU_UTIL{{{LABELS},pod="{pod}",namespace="t"}} 5\n'.encode()
        return only(collector.collect(after(seconds)))

    collector = ExporterCollector(exporter.url)
    assert holder("a", 0).sole_holder and holder("b", 15).sole_holder  # as if a had ended
    assert holder("a", 30).sole_holder is None  # it had not
    assert holder("b", 45).sole_holder is None and holder("c", 60).sole_holder is None
    assert holder("c", 30 + 3700).sole_holder is not None
    assert holder("d", 30 + 4500).sole_holder and holder("c", 30 + 5500).sole_holder  # long enough to be another's run


def test_partitions_get_the_uuid_that_the_driver_knows(exporter: Exporter) -> None:
    exporter.body = f'DCGM_FI_DEV_FB_USED{{{LABELS},GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"}} 5\n'.encode()

    def known(device_id: str, partition: str) -> str:
        return "MIG-u3" if (device_id, partition) == ("GPU-a", "3") else ""

    for partition_id, expected in ((known, "MIG-u3"), (None, "GPU-a/3")):
        scrape = ExporterCollector(exporter.url, partition_id=partition_id).collect(START)
        assert {one.reading.partition_id for one in scrape.observed} == {"", expected}


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-dcgm-exporter/nvidia-aicr-eks-h100/dcgm_exporter_h100x8_sampled.prom",
        "amd-device-metrics-exporter/kaiwo_mi300x_gfx_activity_lines.prom",
        "tpu/gke_tpu_device_plugin_tpu7x_trimmed.prom",
        "hami/volcano-vgpu-device-plugin_readme_metrics.prom",
    ],
)
def test_recorded_scrapes_are_read_over_http(exporter: Exporter, recorded: Callable[[str], str], name: str) -> None:
    exporter.body = recorded(name).encode()
    scrape = ExporterCollector(exporter.url).collect(START)
    assert scrape.up[exporter.url] and scrape.devices


def test_an_exporter_that_was_away_may_be_another_version(exporter: Exporter) -> None:
    collector = ExporterCollector(exporter.url)

    def busy(text: str, seconds: float) -> float | None:
        exporter.body = f"DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} {text}\n".encode()
        return only(collector.collect(after(seconds))).reading.readings["gpu_utilization"].value

    assert [busy("2", 0), busy("1", 15)] == [0.02, 0.01]
    exporter.status = 503
    assert busy("1", 30) is None
    exporter.status = 200
    assert [busy("1", 45), busy("3", 60), busy("1", 75)] == [None, 0.03, 0.01]
    collector.close()
