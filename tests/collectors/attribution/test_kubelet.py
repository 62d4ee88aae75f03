"""Pods by name, from a kubelet over real HTTP and TLS."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.attribution.kubelet import KubeletPods, Pod, pods_of, uids_by_name
from collectors.errors import CollectorError
from tests.certificates import self_signed

from .kubelet_server import PodsServer, pod_json, serving


def test_pods_have_uid_phase_and_labels() -> None:
    items = [
        pod_json("u1", "train-0", labels={"team": "vision"}),
        pod_json("u2", "train-1", phase="Succeeded"),
        {"metadata": {"name": "without uid"}},
    ]
    with serving(PodsServer(items)) as server:
        pods = KubeletPods(server.url).pods()
    assert pods == [
        Pod("u1", "ml", "train-0", "Running", {"team": "vision"}),
        Pod("u2", "ml", "train-1", "Succeeded"),
    ]
    assert uids_by_name(pods) == {("ml", "train-0"): ["u1"]}


def test_the_token_is_read_again_for_each_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with serving(PodsServer([pod_json("u1", "a")])) as server:
        server.token = "first"
        kubelet = KubeletPods(server.url, token_file=token)
        assert len(kubelet.pods()) == 1
        server.token = "second"
        with pytest.raises(CollectorError, match=r"refused \(401\).*nodes/pods"):
            kubelet.pods()
        token.write_text("second\n")
        assert len(kubelet.pods()) == 1
        token.unlink()
        with pytest.raises(CollectorError, match="no token"):
            kubelet.pods()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (403, b"", r"refused \(403\)"),
        (500, b"", "answers 500"),
        (302, b"", "answers 302"),
        (200, b"<html>", "no list of pods"),
        (200, b"[]", "no list of pods"),
        (200, b'{"kind": "Status"}', "no list of pods .items: Field required"),
        (200, b'{"items": [{"metadata": {"uid": 7}}]}', r"no list of pods \(items.0.metadata.uid"),
    ],
)
def test_whatever_is_no_list_of_pods_is_an_error(status: int, body: bytes, error: str) -> None:
    with serving(PodsServer([])) as server:
        server.status, server.body = status, body
        with pytest.raises(CollectorError, match=error):
            KubeletPods(server.url).pods()


def test_a_kubelet_that_is_away_is_an_error() -> None:
    with serving(PodsServer([])) as server:
        url = server.url
    with pytest.raises(CollectorError, match="no answer"):
        KubeletPods(url, timeout_seconds=1).pods()


@pytest.mark.parametrize(
    "url", ["", "kubelet:10250", "unix:///kubelet.sock", "https://", "http://node:port", "http://[::1"]
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(CollectorError, match="no address of a kubelet"):
        KubeletPods(url)


def test_a_node_without_pods_has_none() -> None:
    with serving(PodsServer([])) as server:
        server.body = b'{"kind": "PodList", "items": null}'
        assert KubeletPods(server.url).pods() == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, signed by itself."""
    return self_signed(tmp_path_factory.mktemp("tls"), "127.0.0.1")


def test_only_who_the_ca_file_vouches_for_is_believed(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    with serving(PodsServer([pod_json("u1", "a")]), tls) as server:
        assert len(KubeletPods(server.url, ca_file=cert).pods()) == 1
        assert len(KubeletPods(server.url, verify=False).pods()) == 1
        with pytest.raises(CollectorError, match=r"no answer \(.*certificate"):
            KubeletPods(server.url).pods()
    broken = tmp_path / "ca.pem"
    with pytest.raises(CollectorError, match="no certificates"):
        KubeletPods("https://127.0.0.1:1", ca_file=broken)
    broken.write_text("not PEM")
    with pytest.raises(CollectorError, match="no certificates"):
        KubeletPods("https://127.0.0.1:1", ca_file=broken)


def test_a_static_pod_goes_by_its_hash_on_the_node() -> None:
    mirror = pod_json("api-uid", "driver-node-1", annotations={"kubernetes.io/config.mirror": "abc123"})
    itself = pod_json("abc123", "driver-node-1", annotations={"kubernetes.io/config.hash": "abc123"})
    assert pods_of(json.dumps({"items": [mirror, itself]}).encode(), "kubelet") == [
        Pod("api-uid", "ml", "driver-node-1", "Running", cgroup_uid="abc123"),
        Pod("abc123", "ml", "driver-node-1", "Running"),
    ]


_keys = st.sampled_from(["items", "metadata", "status", "uid", "name", "labels", "phase"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(_keys, inner),
    max_leaves=20,
)


@given(_json.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_no_body_breaks_it(body: bytes) -> None:
    try:
        found = pods_of(body, "kubelet")
    except CollectorError as error:
        assert "no list of pods" in str(error)
        return
    assert all(pod.uid and pod.name for pod in found)
