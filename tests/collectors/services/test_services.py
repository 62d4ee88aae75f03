"""Inference servers' own metrics -> service levels, over real HTTP."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.exporters import exposition
from collectors.services.measure import Level, Measure, levels, measure, reading
from collectors.services.profile import FILES, Profile, Rule, profile_of, read_profile, recognise
from collectors.services.scrape import Service, ServiceCollector, Target
from ingest.check_rows import check_rows
from warehouse.records import SERVICE_LEVELS

SHARED = Path(__file__).resolve().parents[4] / "shared" / "telemetry"
NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def reported(
    profile: Profile | str, *bodies: str, seconds: float = 60.0
) -> tuple[dict[tuple[str, Any], Level], Counter[str]]:
    """(metric, quantile) -> level of the last body, after the others; '/SERVICE' precedes where the profile splits."""
    chosen = profile_of(profile) if isinstance(profile, str) else profile
    before, found, dropped = None, {}, Counter[str]()
    for number, body in enumerate(bodies):
        read = exposition.parse(body, chosen.names.__contains__)
        now = reading(read.series, number * seconds)
        found = measure(chosen, before, now, dropped)
        before = now
    rows = {}
    for (group, _, _), one in found.items():
        for level in levels(one):
            rows[f"{group}/{level.metric}" if group else level.metric, level.quantile] = level
    return rows, dropped


def vllm(running: int = 2, tokens: int = 0, fast: int = 0, slow: int = 0, engine: str = "0", old: bool = False) -> str:
    """One engine of a vLLM server: requests of which `fast` took below 1 s and `slow` below 2.5 s."""
    label = f'engine="{engine}",model_name="m"'
    token = "time_per_output_token_seconds" if old else "inter_token_latency_seconds"
    return f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{label}}} {running}
vllm:kv_cache_usage_perc{{{label}}} 0.25
vllm:generation_tokens_total{{{label}}} {tokens}
vllm:e2e_request_latency_seconds_bucket{{le="1.0",{label}}} {fast}
vllm:e2e_request_latency_seconds_bucket{{le="2.5",{label}}} {fast + slow}
vllm:e2e_request_latency_seconds_bucket{{le="+Inf",{label}}} {fast + slow}
vllm:e2e_request_latency_seconds_count{{{label}}} {fast + slow}
vllm:e2e_request_latency_seconds_sum{{{label}}} {fast * 0.5 + slow * 2}
vllm:request_success_total{{finished_reason="stop",{label}}} {fast}
vllm:request_success_total{{finished_reason="length",{label}}} {slow}
vllm:{token}_bucket{{le="0.05",{label}}} {fast * 10}
vllm:{token}_bucket{{le="+Inf",{label}}} {fast * 10}
"""


def test_the_first_reading_tells_gauges_and_nothing_that_needs_an_interval() -> None:
    rows, _ = reported("vllm", vllm(fast=1000))
    assert {key: level.value for key, level in rows.items()} == {
        ("requests_running", None): 2,
        ("kv_cache_usage", None): 0.25,
    }


def test_an_interval_has_rates_means_and_quantiles_of_what_was_gained() -> None:
    rows, dropped = reported("vllm", vllm(tokens=100, fast=5000), vllm(tokens=700, fast=5400, slow=200))
    assert not dropped["counter is no count"]
    assert rows["output_tokens_per_second", None].value == 10
    assert rows["requests_per_second", None].value == 10
    assert rows["request_latency_seconds", None] == Level("request_latency_seconds", None, 1.0, observations=600)
    assert rows["request_latency_seconds", 0.5] == Level("request_latency_seconds", 0.5, 0.75, 0.0, 1.0, 600)
    assert rows["request_latency_seconds", 0.99] == Level(
        "request_latency_seconds", 0.99, pytest.approx(2.455), 1.0, 2.5, 600
    )


def test_too_few_requests_have_a_mean_and_no_p99() -> None:
    rows, _ = reported("vllm", vllm(), vllm(fast=100))
    assert rows["request_latency_seconds", 0.95].value == pytest.approx(0.95)
    assert rows["request_latency_seconds", 0.99] == Level("request_latency_seconds", 0.99, None, observations=100)
    assert rows["request_latency_seconds", None].value == 0.5


def test_an_interval_without_requests_has_a_rate_of_none_and_no_latency() -> None:
    rows, _ = reported("vllm", vllm(fast=10), vllm(fast=10))
    assert rows["requests_per_second", None].value == 0
    assert not [key for key in rows if key[0] == "request_latency_seconds"]


def test_a_restarted_server_is_counted_from_its_start() -> None:
    rows, _ = reported("vllm", vllm(tokens=9000, fast=9000), vllm(tokens=60, fast=60))
    assert rows["output_tokens_per_second", None].value == 1
    assert rows["request_latency_seconds", None].observations == 60


def test_engines_of_a_server_are_put_together_before_the_quantile_and_restart_apart() -> None:
    first = vllm(fast=1000, engine="0") + vllm(fast=1000, engine="1")
    second = vllm(fast=1300, engine="0") + vllm(slow=300, engine="1")
    rows, _ = reported("vllm", first, second)
    assert rows["request_latency_seconds", 0.5].observations == 600
    assert rows["request_latency_seconds", 0.5].value == 1.0
    assert rows["requests_running", None].value == 4


def test_a_new_name_counts_where_an_old_one_is_beside_it() -> None:
    new, old = vllm(fast=600), vllm(fast=300, old=True)
    both, _ = reported("vllm", vllm() + vllm(old=True), new + old)
    assert both["inter_token_latency_seconds", 0.5].observations == 6000
    alone, _ = reported("vllm", vllm(old=True), old)
    assert alone["inter_token_latency_seconds", 0.5].observations == 3000


def test_errors_are_unknown_where_the_server_does_not_tell_them() -> None:
    rows, _ = reported("vllm", vllm(), vllm(fast=10))
    assert not [key for key in rows if key[0] in ("errors_per_second", "aborted_per_second")]
    line = 'vllm:request_success_total{finished_reason="error",model_name="m"} '
    rows, _ = reported("vllm", vllm() + line + "0\n", vllm(fast=10) + line + "30\n")
    assert rows["errors_per_second", None].value == 0.5


@pytest.mark.parametrize(("awake", "sleeping"), [("1.0", 0), ("0.0", 1)])
def test_a_sleeping_engine_says_so(awake: str, sleeping: int) -> None:
    name = "vllm:engine_sleep_state"
    body = f'{name}{{sleep_state="awake"}} {awake}\n{name}{{sleep_state="discard_all"}} 0\n'
    assert reported("vllm", body)[0]["engine_sleeping", None].value == sleeping


def test_what_is_no_number_or_out_of_range_is_counted_and_has_no_row() -> None:
    body = "vllm:kv_cache_usage_perc 57\nvllm:num_requests_running NaN\nvllm:num_requests_waiting 3\n"
    rows, dropped = reported("vllm", body)
    assert list(rows) == [("requests_waiting", None)]
    assert dropped == {"out of range": 1, "blank": 1}
    rows, dropped = reported("vllm", "vllm:prompt_tokens_total 5\n", "vllm:prompt_tokens_total -5\n")
    assert (rows, dropped) == ({}, {"counter is no count": 1})


def triton(model: str, success: int, failed: int, microseconds: int, executions: int) -> str:
    return f"""\
nv_inference_request_success{{model="{model}",version="1"}} {success}
nv_inference_request_failure{{model="{model}",version="1",reason="OTHER"}} {failed}
nv_inference_request_failure{{model="{model}",version="1",reason="REJECTED"}} {failed}
nv_inference_count{{model="{model}",version="1"}} {success}
nv_inference_exec_count{{model="{model}",version="1"}} {executions}
nv_inference_request_duration_us{{model="{model}",version="1"}} {microseconds}
nv_inference_compute_infer_duration_us{{model="{model}",version="1"}} {microseconds}
nv_inference_pending_request_count{{model="{model}",version="1"}} 3
nv_inference_pending_request_count{{model="{model}",version="2"}} 4
"""


def test_triton_has_a_service_for_each_model_in_seconds_and_its_failures_by_reason_together() -> None:
    rows, _ = reported(
        "triton",
        triton("a", 0, 0, 0, 0) + triton("b", 5, 0, 10, 1),
        triton("a", 540, 30, 1_080_000_000, 54) + triton("b", 5, 0, 10, 1),
    )
    values = {key: level.value for key, level in rows.items()}
    assert values == {
        ("a/requests_per_second", None): 9,
        ("a/errors_per_second", None): 1,
        ("a/error_ratio", None): 0.1,
        ("a/inferences_per_second", None): 9,
        ("a/batch_size", None): 10,
        ("a/request_latency_seconds", None): 2.0,
        ("a/compute_seconds", None): 20.0,
        ("a/requests_waiting", None): 7,
        ("b/requests_per_second", None): 0,
        ("b/errors_per_second", None): 0,
        ("b/inferences_per_second", None): 0,
        ("b/requests_waiting", None): 7,
    }
    assert rows["a/request_latency_seconds", None].observations == 540


def test_summaries_are_as_the_server_tells_them_and_never_merged() -> None:
    def summary(version: str) -> str:
        name = f'nv_inference_request_summary_us{{model="a",version="{version}",quantile='
        return f'{name}"0.5"}} 55000\n{name}"0.99"}} 101000\n'

    rows, _ = reported("triton", summary("1"))
    assert rows["a/request_latency_seconds", 0.99] == Level("request_latency_seconds", 0.99, pytest.approx(0.101))
    rows, dropped = reported("triton", summary("1") + summary("2"))
    assert (rows, dropped) == ({}, {"summaries of several series cannot be merged": 1})


@contextmanager
def server(pages: dict[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            self.send_response(200 if body is not None else 503)
            self.end_headers()
            self.wfile.write((body or "warming up").encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def of(rows: list[dict[str, Any]], metric: str, quantile: float | None = None) -> dict[str, tuple[Any, Any]]:
    """workload -> (value, observations)"""
    return {
        row.get("workload_id", ""): (row.get("value"), row.get("observations"))
        for row in rows
        if row["metric"] == metric and row.get("quantile") == quantile
    }


def test_replicas_and_the_whole_service_have_rows_of_their_own() -> None:
    pages = {"/a": vllm(fast=100), "/b": vllm(fast=100)}
    with server(pages) as url:
        service = Service("chat", (Target(f"{url}/a", "pod-a"), Target(f"{url}/b", "pod-b")), tenant="nlp", whole=True)
        collector = ServiceCollector([service], cluster="prod", period_seconds=60)
        first = collector.collect(NOW).rows["service_levels"]
        assert of(first, "requests_running") == {"pod-a": (2, None), "pod-b": (2, None), "": (4, None)}
        pages |= {"/a": vllm(fast=300), "/b": vllm(fast=100, slow=200)}
        second = collector.collect(NOW + MINUTE).rows["service_levels"]
        assert not check_rows(SERVICE_LEVELS, [*first, *second], NOW + MINUTE).bad
        assert of(second, "request_latency_seconds", 0.99) == {
            "pod-a": (None, 200),
            "pod-b": (None, 200),
            "": (pytest.approx(2.47), 400),
        }
        assert of(second, "requests_per_second")[""] == (pytest.approx(400 / 60), None)
        keys = [tuple(row.get(name) for name in SERVICE_LEVELS.key) for row in second]
        assert len(set(keys)) == len(keys)
        assert {(row["cluster"], row["tenant"], row["interval_seconds"]) for row in second} == {("prod", "nlp", 60.0)}

        del pages["/b"]
        third = collector.collect(NOW + 2 * MINUTE)
        assert {row["workload_id"] for row in third.rows["service_levels"]} == {"pod-a"}
        assert third.dropped["a replica did not answer: nothing is reported of the whole service"] == 1
        (finding,) = third.rows["findings"]
        assert finding["finding"] == "source_unreachable"
        assert "HTTP 503 warming up" in finding["message"]

        pages["/b"] = vllm(fast=400, slow=200)
        fourth = collector.collect(NOW + 3 * MINUTE).rows["service_levels"]
        assert of(fourth, "requests_per_second")["pod-b"] == (2.5, None)  # over the two minutes since it was last asked
        collector.close()


def test_a_single_replica_is_its_service() -> None:
    with server({"/m": triton("a", 1, 0, 1, 1)}) as url:
        collector = ServiceCollector([Service("vision", (Target(f"{url}/m"),))])
        rows = collector.collect(NOW).rows["service_levels"]
        assert [(row["service"], row.get("workload_id"), row["metric"], row["value"]) for row in rows] == [
            ("vision/a", None, "requests_waiting", 7)
        ]
        collector.close()


def test_a_clock_that_was_set_back_makes_no_interval() -> None:
    with server({"/m": vllm(fast=10)}) as url:
        collector = ServiceCollector([Service("chat", (Target(f"{url}/m"),))])
        collector.collect(NOW)
        back = collector.collect(NOW - MINUTE)
        assert {row["metric"] for row in back.rows["service_levels"]} == {"requests_running", "kv_cache_usage"}
        assert back.dropped["the clock was set, or the last reading is too old"] == 1
        collector.close()


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("http_requests_total 4\n", True),  # of another program
        ("", True),
        ("# TYPE vllm:num_requests_running gauge\n", False),  # nobody has asked it yet
    ],
)
def test_a_page_without_anything_of_its_profile_is_a_finding(page: str, found: bool) -> None:
    pages = {"/m": page}
    with server(pages) as url:
        chat = ServiceCollector([Service("chat", (Target(f"{url}/m"),), profile="vllm", whole=True)])
        findings = chat.collect(NOW).rows.get("findings", [])
        assert [row["message"].split("; ")[0] for row in findings] == found * [
            f"{url}/m: answers with none of the metrics that profile vllm reads"
        ]
        pages["/m"] = vllm(fast=10)
        assert chat.collect(NOW + MINUTE).rows.keys() == {"service_levels"}
        chat.close()


def test_metrics_that_no_profile_recognises_are_a_finding() -> None:
    with server({"/m": "http_requests_total 4\n"}) as url:
        unknown = ServiceCollector([Service("web", (Target(f"{url}/m"),))])
        (finding,) = unknown.collect(NOW).rows["findings"]
        assert "no profile recognises" in finding["message"]
        named = ServiceCollector([Service("web", (Target(f"{url}/m"),), profile="generic")], period_seconds=60)
        named.collect(NOW)
        (row,) = named.collect(NOW + MINUTE).rows["service_levels"]
        assert (row["metric"], row["value"]) == ("requests_per_second", 0)
        unknown.close()
        named.close()


def test_services_that_rows_could_not_tell_apart_are_refused() -> None:
    with pytest.raises(CollectorError, match="one workload_id"):
        ServiceCollector([Service("s", (Target("http://a:1/x"), Target("http://a:1/y")))])
    with pytest.raises(CollectorError, match="no targets"):
        ServiceCollector([Service("s", ())])
    with pytest.raises(CollectorError, match="not an http or https URL"):
        ServiceCollector([Service("s", (Target("file:///etc/passwd"),))])


PROFILE = "name: mine\nmetrics:\n  - {metric: requests_per_second, kind: rate, names: my_requests_total}\n"


def test_a_user_maps_metrics_in_a_file_of_his_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(PROFILE, encoding="utf-8")
    rows, _ = reported(read_profile(path), "my_requests_total 3\n", "my_requests_total 63\n")
    assert rows["requests_per_second", None].value == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not YAML"),
        ("[]", "not a profile"),
        (PROFILE.replace("rate", "speed"), r"metrics\[0\] \(my_requests_total\).kind: found 'speed'"),
        (PROFILE.replace("names", "nams"), r"metrics\[0\].(names: missing|nams: unknown key)"),
        (PROFILE.replace("requests_per_second", "Requests/s"), "a name such as"),
        (PROFILE.replace("kind: rate", "kind: ratio"), "a ratio needs it"),
        (PROFILE.replace("kind: rate", "kind: rate, range: [0, 1]"), "belong to a gauge"),
        (PROFILE.replace("kind: rate", "kind: histogram, quantiles: [99]"), "between 0 and 1"),
        (PROFILE.replace("name: mine", "name: mine\nrecognise: '('"), "not a pattern"),
        (PROFILE + PROFILE.split("metrics:\n")[1].replace("rate", "gauge"), "gauge and rate"),
    ],
)
def test_a_profile_that_does_not_fit_says_where_and_what(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CollectorError, match=says):
        read_profile(path)
    with pytest.raises(CollectorError, match="Known: generic, triton, vllm"):
        profile_of("nope")
    with pytest.raises(CollectorError, match="cannot be read"):
        profile_of(str(tmp_path / "nope.yaml"))


def sample(path: str) -> str:
    if not SHARED.exists():
        pytest.skip("the recorded scrapes are not beside this checkout (../shared/telemetry)")
    return (SHARED / path).read_text(encoding="utf-8")


def test_recorded_scrapes_are_recognised_and_read() -> None:
    for path, name in (
        ("vllm/datadog_vllm_metrics_trimmed.prom", "vllm"),
        ("vllm/aibrix_docs_vllm_v0_sample.prom", "vllm"),
        ("triton/datadog_triton_metrics_trimmed.prom", "triton"),
        ("triton/triton_docs_summary_histogram_samples.prom", "triton"),
    ):
        found = recognise(exposition.names(sample(path)))
        assert found is not None
        assert found.name == name
    assert recognise({"http_requests_total", "up"}) is None


def test_a_recorded_vllm_of_both_names() -> None:
    body = sample("vllm/datadog_vllm_metrics_trimmed.prom")
    gauges, _ = reported("vllm", body)
    assert {key[0]: level.value for key, level in gauges.items()} == {
        "requests_running": 0,
        "requests_waiting": 0,
        "kv_cache_usage": 0,
        "engine_sleeping": 0,
    }
    rows, _ = reported("vllm", "", body)  # as if all of it were of one interval
    assert rows["time_to_first_token_seconds", None].value == pytest.approx(0.31326723098754883)
    assert rows["time_to_first_token_seconds", 0.5] == Level("time_to_first_token_seconds", 0.5, None, observations=1)
    assert rows["inter_token_latency_seconds", 0.5] == Level(
        "inter_token_latency_seconds", 0.5, pytest.approx(0.0375), 0.025, 0.05, 6
    )
    assert rows["output_tokens_per_second", None].value == pytest.approx(7 / 60)
    assert rows["requests_per_second", None].value == pytest.approx(1 / 60)


def test_an_old_vllm_has_its_cache_under_the_old_name_and_no_histogram_without_its_end() -> None:
    rows, _ = reported("vllm", sample("vllm/aibrix_docs_vllm_v0_sample.prom"))
    assert rows["kv_cache_usage", None].value == 0


def test_a_recorded_triton_in_seconds() -> None:
    rows, _ = reported("triton", "", sample("triton/datadog_triton_metrics_trimmed.prom"))
    assert rows["densenet_onnx/request_latency_seconds", None].value == pytest.approx(1327965e-6 / 3)
    assert rows["densenet_onnx/request_latency_seconds", 0.99].value == pytest.approx(3e-6)
    assert rows["simple/requests_per_second", None].value == 0
    assert ("simple/request_latency_seconds", None) not in rows  # nobody asked: no mean, not a mean of 0
    histograms, _ = reported("triton", "", sample("triton/triton_docs_summary_histogram_samples.prom"))
    p50 = histograms["my_model/first_response_seconds", 0.5]
    assert (p50.low, p50.high, p50.observations) == (0.1, 0.5, 37)
    assert histograms["my_model/request_queue_seconds", None].value == pytest.approx(11110e-6 / 161)


NAMES = sorted({name for profile in FILES.built_in for name in profile.names})
VALUE = st.sampled_from(["0", "1", "1e308", "-1", "NaN", "+Inf", "-Inf", "9" * 40, "1e17", "3.5"]) | st.floats().map(
    str
)
LABEL = st.sampled_from(
    [
        "",
        '{le="0.1"}',
        '{le="+Inf"}',
        '{le="x"}',
        '{model="a",le="1"}',
        '{quantile="0.5"}',
        '{quantile="7"}',
        '{code="500"}',
    ]
)
LINE = st.builds(lambda name, label, value: f"{name}{label} {value}\n", st.sampled_from(NAMES), LABEL, VALUE)


@settings(max_examples=50)
@given(st.lists(st.lists(LINE, max_size=12).map("".join), min_size=1, max_size=3))
def test_no_body_breaks_a_profile_and_every_row_fits_the_contract(bodies: list[str]) -> None:
    for profile in FILES.built_in:
        rows, _ = reported(profile, *bodies)
        plain = [
            {
                "ts": NOW,
                "interval_seconds": 60.0,
                "service": "s",
                "metric": level.metric,
                "quantile": level.quantile,
                "value": level.value,
                "value_low": level.low,
                "value_high": level.high,
                "observations": level.observations,
            }
            for level in rows.values()
        ]
        checked = check_rows(SERVICE_LEVELS, plain, NOW)
        assert not checked.bad, checked.example


def test_a_measure_of_nothing_tells_nothing() -> None:
    rule = Rule(metric="error_ratio", kind="ratio", names=("a",), per=("b",))
    assert levels(Measure(rule, amounts=(0.0,), per=0.0)) == []
