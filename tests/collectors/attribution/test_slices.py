"""An agent's view of dynamic resource allocation: what the kubelet names, the API server's slices identify."""

from __future__ import annotations

import itertools
import logging
import time
from pathlib import Path

import pytest

from collectors.attribution.kubelet import Pod
from collectors.attribution.places import Inventory, Place
from collectors.attribution.podresources.client import ClaimedDevice, Container, Snapshot
from collectors.attribution.podresources.holdings import allocations
from collectors.attribution.slices import FRESH_SECONDS, NodeSlices
from collectors.kubernetes.api import LIST_SECONDS
from collectors.kubernetes.claims import SLICE_PATHS
from collectors.kubernetes.connection import Connection, KubernetesError
from collectors.readings import DeviceReading
from tests.collectors.kubernetes.server import serving
from tests.collectors.kubernetes.test_claims import GPU, MIG, slice_
from tests.slow_answers import answering

NEWEST, BETA = SLICE_PATHS[:2]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def slices(url: str, clock: Clock) -> NodeSlices:
    return NodeSlices("n1", connect=lambda _: Connection(url), clock=clock)


def test_what_a_pod_claims_is_the_device_of_its_slice_and_no_other_node_s() -> None:
    with serving() as (server, url):
        server.apply(NEWEST, slice_([GPU, MIG]))
        server.apply(NEWEST, slice_([{**GPU, "attributes": {"uuid": {"string": "GPU-other"}}}], node="n2"))
        places = slices(url, Clock())()
    assert places == {
        ("gpu.nvidia.com", "n1", "gpu-0"): Place("GPU-aa"),
        ("gpu.nvidia.com", "n1", "gpu-1-mig-1g10gb-9-0"): Place("GPU-bb", "MIG-1"),
    }
    container = Container("chem", "train-0", "main")
    snapshot = Snapshot(claims=(ClaimedDevice(container, "gpu.nvidia.com", "n1", "gpu-0"),))
    inventory = Inventory([DeviceReading("GPU-aa", index=0)])
    known, dropped = allocations(snapshot, [Pod("u", "chem", "train-0", "Running")], inventory, places)
    assert [(one.workload_id, one.place) for one in known.allocations] == [("u", Place("GPU-aa"))]
    assert not dropped


def test_the_node_s_slices_alone_are_asked_for_and_once_a_minute() -> None:
    clock = Clock()
    with serving() as (server, url):
        server.apply(NEWEST, slice_([GPU]))
        asked = slices(url, clock)
        asked(), asked()
        assert [query.get("fieldSelector") for _, query in server.requests] == ["spec.nodeName=n1"]
        server.apply(NEWEST, slice_([GPU, MIG]))
        clock.now += FRESH_SECONDS
        assert len(asked()) == 2


def test_an_older_server_is_asked_for_the_version_it_serves() -> None:
    with serving() as (server, url):
        server.apply(BETA, slice_([{"name": "gpu-0", "basic": {"attributes": GPU["attributes"]}}]))
        assert list(slices(url, Clock())().values()) == [Place("GPU-aa")]


def test_where_the_api_is_away_the_last_answer_stands_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    with serving() as (server, url):
        server.apply(NEWEST, slice_([GPU]))
        asked = slices(url, clock)
        asked()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.now += FRESH_SECONDS
            assert len(asked()) == 1
    assert len(caplog.messages) == 1
    assert "n1" in caplog.messages[0]


def test_an_api_that_answers_letter_by_letter_holds_up_no_reading_of_the_node(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: each list of a slow API server took three minutes, in which no device was read."""
    monkeypatch.setattr("collectors.attribution.slices.ANSWER_SECONDS", 0.3)
    head = b"HTTP/1.1 200 OK\r\nX-"
    with answering(lambda: itertools.chain([head], itertools.repeat(b"y")), 0.05) as url:
        began = time.monotonic()
        with caplog.at_level(logging.WARNING):
            assert slices(url.rstrip("/"), Clock())() == {}
        assert time.monotonic() - began < LIST_SECONDS / 2
    assert "not answered in full after 0.3 s" in caplog.text


def test_without_a_right_or_an_account_nothing_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def nobody(_: Path | None) -> Connection:
        raise KubernetesError("kubernetes", "no service account in this process and no kubeconfig")

    with serving() as (server, url), caplog.at_level(logging.WARNING):
        server.faults.answers[NEWEST] = [(403, {"message": "resourceslices is forbidden"}, {})]
        assert slices(url, Clock())() == {}
        assert NodeSlices("n1", connect=nobody)() == {}
    assert "forbidden" in caplog.messages[0]
    assert "no service account" in caplog.messages[1]
