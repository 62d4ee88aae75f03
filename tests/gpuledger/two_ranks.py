"""A program as users write it: its ranks meet at rank 0, go step by step together, and go on from where they were.

python two_ranks.py FOLDER STEPS: `trace` there has a line for each rank that began or ended.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
there = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
names = ("GPULEDGER_ATTEMPT", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")


def trace(what: str) -> None:
    line = {"what": what, "at": time.time(), "rank": rank, "size": size, "pid": os.getpid()}
    with (folder / "trace").open("a") as file:
        file.write(json.dumps(line | {name: os.environ[name] for name in names}) + "\n")


def lead() -> None:
    step = int((folder / "step").read_text()) if (folder / "step").exists() else 0
    with socket.create_server(there) as door:
        peers = [door.accept()[0] for _ in range(size - 1)]
        while not (folder / "finish").exists() and step < steps:
            for peer in peers:
                peer.sendall(b"+")
                if peer.recv(1) != b"+":
                    sys.exit("a rank is gone")
            step += 1
            (folder / "step.new").write_text(str(step))
            (folder / "step.new").replace(folder / "step")
            (folder / "size").write_text(str(size))
            time.sleep(0.05)
        for peer in peers:
            peer.sendall(b".")


def follow() -> None:
    while True:
        try:
            peer = socket.create_connection(there)
            break
        except OSError:
            time.sleep(0.05)
    while (said := peer.recv(1)) == b"+":
        peer.sendall(b"+")
    if said != b".":
        sys.exit("rank 0 is gone")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
trace("began")
try:
    lead() if rank == 0 else follow()
finally:
    trace("ended")
