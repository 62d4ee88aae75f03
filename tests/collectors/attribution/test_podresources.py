"""PodResources is asked over a real unix socket: large lists, old kubelets, and kubelets that start again."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2

from collectors.attribution.podresources import podresources_pb2 as messages
from collectors.attribution.podresources.client import ClaimedDevice, Container, GivenDevice, PodResources
from collectors.errors import CollectorError
from tests.patience import PATIENCE_SECONDS

from .kubelet_server import PodResourcesServer, pod

GPU = "GPU-5f0a1c22-90bb-4a1e-8d3c-2b7e6a9f0d11"


@pytest.fixture
def socket() -> Iterator[Path]:
    """In a short folder: a unix socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="kubelet") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.fixture
def server(socket: Path) -> Iterator[PodResourcesServer]:
    server = PodResourcesServer(socket)
    yield server
    server.stop()


@pytest.fixture
def client(socket: Path) -> Iterator[PodResources]:
    client = PodResources(socket, timeout_seconds=60.0)
    yield client
    client.close()


def test_devices_and_claims_are_listed_with_whom_they_were_given_to(
    server: PodResourcesServer, client: PodResources
) -> None:
    claimed = messages.Container(
        name="main",
        claims=[
            messages.ResourceClaim(
                name="c1",
                namespace="ml",
                devices=[
                    messages.ClaimedDevice(
                        cdi_devices=[messages.CdiDevice(name="k8s.gpu.nvidia.com/claim=c1-gpu-0")],
                        driver="gpu.nvidia.com",
                        pool="node-1",
                        device="gpu-0",
                        share_id="s1",
                    )
                ],
            )
        ],
    )
    server.pods.pods.extend(
        [
            pod("train-0", f"{GPU}::0", f"{GPU}::1"),
            messages.Pod(name="claimer", namespace="ml", containers=[claimed]),
            messages.Pod(name="web", namespace="ml", containers=[messages.Container(name="nginx")]),
        ]
    )
    server.allocatable.devices.extend(
        [messages.Devices(resource="nvidia.com/gpu", ids=[f"{GPU}::{n}"]) for n in range(3)]
    )
    server.start()
    snapshot = client.snapshot()
    main = Container("ml", "train-0", "main")
    assert snapshot.devices == (
        GivenDevice(main, "nvidia.com/gpu", f"{GPU}::0"),
        GivenDevice(main, "nvidia.com/gpu", f"{GPU}::1"),
    )
    assert snapshot.claims == (
        ClaimedDevice(
            Container("ml", "claimer", "main"),
            "gpu.nvidia.com",
            "node-1",
            "gpu-0",
            "s1",
            ("k8s.gpu.nvidia.com/claim=c1-gpu-0",),
        ),
    )
    assert snapshot.offered == {"nvidia.com/gpu": (f"{GPU}::0", f"{GPU}::1", f"{GPU}::2")}


def test_the_wire_is_the_kubelets() -> None:
    """Bytes by hand, by the kubelet's field numbers, with fields that we do not know in between."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    topology = field(3, field(1, bytes([1 << 3, 1])))
    devices = field(1, b"nvidia.com/gpu") + field(2, b"0") + field(2, b"1") + topology
    claimed = field(2, b"drv") + field(3, b"pool") + field(4, b"dev") + field(5, b"sh") + field(1, field(1, b"cdi"))
    claim = field(2, b"claim") + field(3, b"ns") + field(4, claimed)
    container = field(1, b"main") + field(2, devices) + field(3, bytes([3, 4])) + field(5, claim)
    listed = field(1, field(1, b"p") + field(2, b"n") + field(3, container) + field(4, bytes([3, 4])))
    found = messages.PodList.FromString(listed).pods[0]
    assert (found.name, found.namespace, found.containers[0].name) == ("p", "n", "main")
    assert list(found.containers[0].devices[0].ids) == ["0", "1"]
    got = found.containers[0].claims[0].devices[0]
    assert (got.driver, got.pool, got.device, got.share_id, got.cdi_devices[0].name) == (
        "drv",
        "pool",
        "dev",
        "sh",
        "cdi",
    )


def test_the_generated_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    """If not: docs/attribution.md says how to generate them again."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    root, name = Path(__file__).resolve().parents[3], messages.DESCRIPTOR.name
    out = tmp_path / "set"
    assert protoc.main(["protoc", f"-I{root}", f"--descriptor_set_out={out}", str(root / name)]) == 0
    written = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]
    for field in (field for message in written.message_type for field in message.field):
        field.ClearField("json_name")  # only one of the two outputs spells it out
    generated = descriptor_pb2.FileDescriptorProto.FromString(messages.DESCRIPTOR.serialized_pb)
    assert generated == written


def test_a_list_above_four_mebibytes_comes_whole(server: PodResourcesServer, client: PodResources) -> None:
    padding = "x" * 200
    for number in range(500):
        ids = [f"{GPU}::{number * 40 + n}-{padding}" for n in range(40)]
        server.pods.pods.append(pod(f"pod-{number}", *ids))
    assert server.pods.ByteSize() > 4 << 20
    server.start()
    snapshot = client.snapshot()
    assert len(snapshot.devices) == 20_000
    assert len({device.container.pod for device in snapshot.devices}) == 500


def test_a_kubelet_that_cannot_say_what_it_offers_still_says_what_it_gave(
    server: PodResourcesServer, client: PodResources
) -> None:
    server.allocatable = None
    server.pods.pods.append(pod("train-0", GPU))
    server.start()
    snapshot = client.snapshot()
    assert [device.id for device in snapshot.devices] == [GPU]
    assert snapshot.offered is None


def test_a_kubelet_that_starts_again_is_asked_at_its_new_socket(
    server: PodResourcesServer, client: PodResources
) -> None:
    server.pods.pods.append(pod("train-0", GPU))
    server.start()
    assert len(client.snapshot().devices) == 1
    server.stop()
    server.socket.unlink(missing_ok=True)
    with pytest.raises(CollectorError, match="no socket of the kubelet"):
        client.snapshot()
    server.pods.pods.append(pod("train-1", GPU))
    server.start()
    assert len(client.snapshot().devices) == 2


def test_a_socket_replaced_while_the_old_server_lives_is_noticed(
    socket: Path, server: PodResourcesServer, client: PodResources
) -> None:
    server.start()
    assert client.snapshot().devices == ()
    socket.rename(socket.with_suffix(".old"))
    successor = PodResourcesServer(socket)
    successor.pods.pods.append(pod("train-0", GPU))
    successor.start()
    try:
        assert len(client.snapshot().devices) == 1
    finally:
        successor.stop()


def test_a_socket_without_a_server_is_an_error_and_no_empty_list(
    server: PodResourcesServer, socket: Path, client: PodResources
) -> None:
    server.start()
    client.snapshot()
    socket.rename(socket.with_suffix(".kept"))
    server.stop()
    socket.touch()
    with pytest.raises(CollectorError, match=r"List: unavailable: .*Is the kubelet running"):
        client.snapshot()


def test_a_kubelet_that_hangs_is_given_up(socket: Path, server: PodResourcesServer) -> None:
    released = threading.Event()
    server.on_list = lambda context: released.wait(PATIENCE_SECONDS)
    server.start()
    client = PodResources(socket, timeout_seconds=0.2)
    with pytest.raises(CollectorError, match="List: deadline_exceeded"):
        client.snapshot()
    released.set()
    client.close()


def test_a_refusal_says_why(server: PodResourcesServer, client: PodResources) -> None:
    server.on_list = lambda context: context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
    server.start()
    with pytest.raises(CollectorError, match="List: resource_exhausted: too many calls"):
        client.snapshot()


def test_an_answer_that_is_no_message_is_an_error(server: PodResourcesServer, client: PodResources) -> None:
    server.pods = b"\x0a\xff\xff\xff\xff"
    server.start()
    with pytest.raises(CollectorError, match="List: internal"):
        client.snapshot()
