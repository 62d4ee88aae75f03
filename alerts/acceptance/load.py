"""Small GPU loads with PyTorch: `python -m alerts.acceptance.load matmul --size 4096 --steps 400`.

The protocol, for these and any other loads: optionally a first line `{"about": {"device": ..., "framework": ...}}`;
then a line `{"seconds": 0.0123}` after each step; exit 0. GPULEDGER_STEPS gives the number of steps (0: until
terminated). On an error, the load exits with another status, after a line `{"error": "..."}` if it can.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def print_line(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def matmul(torch: Any, device: Any, options: argparse.Namespace) -> Callable[[], None]:
    """Bound by arithmetic: a product of two square matrices."""
    kind = torch.float16 if device.type == "cuda" else torch.float32
    a = torch.randn(options.size, options.size, device=device, dtype=kind)
    b = torch.randn(options.size, options.size, device=device, dtype=kind)

    def step() -> None:
        torch.matmul(a, b)

    return step


def copy(torch: Any, device: Any, options: argparse.Namespace) -> Callable[[], None]:
    """Bound by memory: a copy within the device's memory."""
    source = torch.zeros(int(options.gib * 2**30), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def step() -> None:
        target.copy_(source)

    return step


def allocate(torch: Any, device: Any, options: argparse.Namespace) -> Callable[[], None]:
    """Takes a part of the device's memory at once, and writes to all of it."""
    size = int(torch.cuda.get_device_properties(device).total_memory * options.part)
    held = torch.empty(size, dtype=torch.uint8, device=device)

    def step() -> None:
        held.fill_(1)

    return step


def fault(torch: Any, device: Any, options: argparse.Namespace) -> Callable[[], None]:
    """Asks for an element that is not there, which ends its own context on the device."""
    table = torch.zeros(16, device=device)
    wrong = torch.full((16,), 2**30, device=device, dtype=torch.int64)

    def step() -> None:
        table[wrong].sum()

    return step


LOADS = {"matmul": matmul, "copy": copy, "allocate": allocate, "fault": fault}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=sorted(LOADS))
    parser.add_argument("--size", type=int, default=4096, help="rows of the matrices")
    parser.add_argument("--gib", type=float, default=1.0, help="GiB that are copied")
    parser.add_argument("--part", type=float, default=0.5, help="of the device's memory")
    parser.add_argument("--device", default="cuda", help="as PyTorch names it")
    parser.add_argument("--steps", type=int, default=int(os.environ.get("GPULEDGER_STEPS", "400")))
    options = parser.parse_args(arguments)
    torch = importlib.import_module("torch")
    device = torch.device(options.device)
    cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if cuda else options.device
    print_line(about={"device": name, "framework": f"torch {torch.__version__}", "load": options.load})
    try:
        step = LOADS[options.load](torch, device, options)
        for _ in range(options.steps) if options.steps else itertools.count():
            begin = time.perf_counter()
            step()
            if cuda:
                torch.cuda.synchronize(device)
            print_line(seconds=time.perf_counter() - begin)
    except RuntimeError as error:  # out of memory, too
        print_line(error=str(error).splitlines()[0][:300])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
