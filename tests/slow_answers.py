"""A server that answers slowly, or without an end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def answering(pieces: Callable[[], Iterator[bytes]], pause: float = 0.0) -> Iterator[str]:
    """One that answers each call with these pieces, and a pause after each."""
    over = threading.Event()

    def answer(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.recv(65536)
            for piece in pieces():
                peer.sendall(piece)
                if over.wait(pause):
                    break
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):  # else the system would reset the connection where a request was not read whole
                pass

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                threading.Thread(target=answer, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
