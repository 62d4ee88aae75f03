"""A kubelet for tests: PodResources over gRPC on a unix socket, /pods over HTTP. Real servers, made-up answers."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import grpc

from collectors.attribution.podresources import podresources_pb2 as messages


class PodResourcesServer:
    """Answers as its fields say; `allocatable` None makes it a kubelet that does not know the method."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.pods = messages.PodList()
        self.allocatable: Any = messages.Allocatable()
        self.on_list: Callable[[Any], None] = lambda context: None
        self.calls = 0
        self._server: Any = None

    def start(self) -> PodResourcesServer:
        self._server = grpc.server(
            futures.ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
        )
        methods = {"List": self._list}
        if self.allocatable is not None:
            methods["GetAllocatableResources"] = lambda request, context: self.allocatable
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=messages.Request.FromString,
                response_serializer=lambda answer: answer if isinstance(answer, bytes) else answer.SerializeToString(),
            )
            for name, method in methods.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
        )
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
        self._server = None

    def _list(self, request: Any, context: Any) -> Any:
        self.calls += 1
        self.on_list(context)
        return self.pods


def pod(name: str, *ids: str, namespace: str = "ml", resource: str = "nvidia.com/gpu", container: str = "main") -> Any:
    devices = [messages.Devices(resource=resource, ids=list(ids))]
    return messages.Pod(
        name=name, namespace=namespace, containers=[messages.Container(name=container, devices=devices)]
    )


def pod_json(uid: str, name: str, namespace: str = "ml", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": name, "namespace": namespace, **metadata}, "status": {"phase": phase}}


class PodsServer:
    """GET /pods. body: what it answers with; token: what it wants to see, if anything."""

    def __init__(self, items: list[Any]) -> None:
        self.body: bytes = json.dumps({"kind": "PodList", "items": items}).encode()
        self.status = 200
        self.token = ""
        self.url = ""


@contextmanager
def serving(server: PodsServer, tls: ssl.SSLContext | None = None) -> Iterator[PodsServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = not server.token or self.headers.get("Authorization") == f"Bearer {server.token}"
            self.send_response(server.status if allowed and self.path == "/pods" else 401 if not allowed else 404)
            self.send_header("Content-Length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    http = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
