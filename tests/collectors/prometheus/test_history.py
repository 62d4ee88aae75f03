"""A history in pieces: how it begins, what is too much at once, and what a wrong address, token or certificate says."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from collectors.errors import CollectorError
from collectors.exporters.fetching import Access, SourceError, TooMuchError
from collectors.prometheus.history import LAG_SECONDS, LEAST_PIECE_SECONDS, Asked, History, _every
from tests.collectors.exporters.serving import Exporter, serving

NOW = datetime(2026, 10, 6, 12, tzinfo=UTC)
FIRST = NOW - timedelta(hours=5, minutes=3)
STEP = 15
PLAIN = Access()
LABELS = {"UUID": "GPU-a", "modelName": "NVIDIA L40S", "Hostname": "n1", "job": "gpus", "instance": "n1:9400"}


@pytest.fixture
def fake() -> Iterator[Exporter]:
    with serving() as one:
        yield one


class Answering:
    """As a Prometheus that has one GPU's utilization, every STEP seconds since FIRST.   most: seconds of samples that
    it reads for one query; more is HTTP 422, as is any of the names in `never`."""

    def __init__(self, exporter: Exporter, most: float = 1e9, names: tuple[str, ...] = ("DCGM_FI_DEV_GPU_UTIL", "up")):
        self.exporter, self.most, self.names = exporter, most, names
        self.spans: list[float] = []
        self.clusters: tuple[str, ...] = ()

    def __call__(self, path: str) -> bytes:
        self.exporter.status = 200
        asked = {name: texts[0] for name, texts in parse_qs(urlsplit(path).query).items()}
        if path.split("?")[0].endswith("/label/__name__/values"):
            there = "end" not in asked or float(asked["end"]) > FIRST.timestamp()
            return json.dumps({"status": "success", "data": list(self.names) if there else []}).encode()
        query, until = asked["query"], float(asked["time"])
        if query == "vector(1)":
            return self.answer("vector", [{"metric": {}, "value": [until, "1"]}])
        if query.endswith(" by (cluster)"):
            named: list[dict[str, Any]] = [{"metric": {"cluster": one}, "value": [until, "1"]} for one in self.clusters]
            return self.answer("vector", named)
        if query.startswith("count("):
            return self.answer("vector", [{"metric": {}, "value": [until, "1"]}])
        span = re.search(r"\[(\d+)s\]$", query)
        if span is None or "DCGM_FI_DEV_GPU_UTIL" not in query:
            return self.answer("matrix", [])
        if float(span[1]) > self.most:
            self.exporter.status = 422
            return b'{"status":"error","error":"query processing would load too many samples into memory"}'
        self.spans.append(float(span[1]))
        first = FIRST.timestamp()
        values = [
            [at, "40"]
            for number in range(int((NOW - FIRST).total_seconds()) // STEP)
            if until - float(span[1]) <= (at := first + number * STEP) <= until
        ]
        found = [{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", **LABELS}, "values": values}] if values else []
        return self.answer("matrix", found)

    def answer(self, kind: str, result: list[dict[str, Any]]) -> bytes:
        return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def every_sample() -> list[datetime]:
    return [FIRST + timedelta(seconds=STEP * n) for n in range(int((NOW - FIRST).total_seconds()) // STEP)]


def read(history: History) -> list[datetime]:
    instants: list[datetime] = []
    while (collected := history.next(NOW)) is not None:
        instants += [row["ts"] for row in collected.rows.get("samples", [])]
    return instants


@pytest.mark.parametrize(
    ("period", "samples", "every"),
    [(30, 1e6, 0), (30, 5e6, 60), (30, 20e6, 300), (30, 900e6, 300), (60, 7e6, 120), (300, 9e6, 0), (15, 8.1e6, 60)],
)
def test_more_samples_than_take_minutes_are_read_more_coarsely(period: float, samples: float, every: int) -> None:
    assert _every(period, samples * period) == every


@pytest.mark.parametrize("most", [1e9, 1000])
def test_every_sample_once_from_the_first_on_in_pieces_that_it_answers(fake: Exporter, most: float) -> None:
    api = fake.route = Answering(fake, most)
    api.most = 1e9  # while it is looked at
    history = History(Asked(fake.url), None, NOW)
    assert (history.since, history.period_seconds) == (FIRST, STEP)
    api.most, api.spans = most, []
    assert read(history) == [at for at in every_sample() if at <= NOW - timedelta(seconds=LAG_SECONDS)]
    assert max(api.spans) <= min(most, 3600)
    assert not history.has_holders


def test_an_answer_too_large_at_its_smallest_piece_is_an_error(fake: Exporter) -> None:
    api = fake.route = Answering(fake)
    history = History(Asked(fake.url), None, NOW)
    api.most = LEAST_PIECE_SECONDS / 2
    before = history.until
    with pytest.raises(TooMuchError, match="too many samples"):
        history.next(NOW)
    assert history.until == before


def test_nothing_is_lost_where_it_fails_between_the_grid_and_every_sample(
    fake: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake has nothing on a grid."""
    monkeypatch.setattr("collectors.prometheus.history.MOST_SAMPLES", 1)
    api = fake.route = Answering(fake)
    begun = NOW - timedelta(hours=1)
    history = History(Asked(fake.url), None, begun)
    assert history.every_seconds == 300
    while history.until < begun - timedelta(seconds=LAG_SECONDS):
        assert history.next(NOW) is not None
    api.most = 10
    for _ in range(2):
        with pytest.raises(TooMuchError):
            history.next(NOW)
    api.most = 1e9
    expected = [at for at in every_sample() if begun < at + timedelta(seconds=LAG_SECONDS) <= NOW]
    assert read(history) == expected


def test_a_history_begins_where_it_is_asked_to(fake: Exporter) -> None:
    fake.route = Answering(fake)
    since = NOW - timedelta(hours=2)
    assert since <= History(Asked(fake.url, since=since), None, NOW).since < since + timedelta(seconds=STEP)
    with pytest.raises(SourceError, match="no series of a GPU exporter since"):
        History(Asked(fake.url, since=NOW), None, NOW)
    with pytest.raises(SourceError, match=r'exporter with cluster="b" since .* another --prometheus-selector'):
        History(Asked(fake.url, since=NOW, selector='cluster="b"'), None, NOW)


def test_several_clusters_in_one_prometheus_are_named(fake: Exporter) -> None:
    for there in ((), ("",), ("b", "", "a")):
        answering = Answering(fake)
        answering.clusters = there
        fake.route = answering
        history = History(Asked(fake.url, access=PLAIN), None, NOW)
        assert history.clusters == [one for one in sorted(there) if one]
        history.close()


def test_an_unreadable_position_is_reported_and_nothing_is_read_twice(fake: Exporter, tmp_path: Path) -> None:
    fake.route = Answering(fake)
    history = History(Asked(fake.url), tmp_path / "kept", NOW)
    first = history.next(NOW)
    assert first is not None
    history.keep()
    assert not history.is_resumed
    again = History(Asked(fake.url), tmp_path / "kept", NOW)
    assert again.until == history.until and again.is_resumed
    seen, rest = {row["ts"] for row in first.rows["samples"]}, read(again)
    assert rest and not seen & set(rest)
    (tmp_path / "kept" / "position.json").write_text("{")
    with pytest.raises(CollectorError, match=r"position.json: damaged.*another --store"):
        History(Asked(fake.url), tmp_path / "kept", NOW)


def test_wrong_addresses_and_refusals_are_one_line_without_the_secret(fake: Exporter, tmp_path: Path) -> None:
    def said(access: Access = PLAIN) -> str:
        with pytest.raises(CollectorError) as raised:
            History(Asked(fake.url, access=access), None, NOW)
        assert "\n" not in str(raised.value)
        return str(raised.value)

    fake.body = b"<html>Grafana</html>"
    assert "Give a Prometheus's address" in said()
    fake.body, fake.status = b"not found", 404
    assert "HTTP 404" in said() and "Give a Prometheus's address" in said()
    fake.status = 401
    assert "Give a token or login that it accepts" in said()
    (tmp_path / "token").write_text("\n")
    for name, why in (("token", "is empty"), ("absent", "cannot be read")):
        for access in (Access(token_file=tmp_path / name), Access(login_file=tmp_path / name)):
            assert why in (line := said(access)) and "Give a Prometheus's address" not in line
    (tmp_path / "login").write_text("ada:open sesame\n")
    assert "sesame" not in said(Access(login_file=tmp_path / "login"))
    sent = base64.b64encode(b"ada:open sesame").decode()
    assert fake.asked[-1]["authorization"] == f"Basic {sent}"
    assert "cannot be read" in said(Access(token_file=tmp_path / "nowhere"))
    (tmp_path / "two").write_text("one\ntwo")
    assert "is not one line" in said(Access(login_file=tmp_path / "two"))
    fake.route = Answering(fake, names=("up", "node_load1"))
    assert re.search("no series of a GPU exporter. Looked for .*DCGM_FI_.*dcgm", said())
