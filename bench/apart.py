"""A function in a process of its own: chDB takes one path per process, and a peak of memory belongs to a process."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
POLL_SECONDS = 0.2


class BenchError(Exception):
    """The run is of no use: a piece broke, or two pieces that must agree do not."""


def speed_of_machine() -> str:
    """How fast this machine is now, for figures in milliseconds and seconds: one machine's can differ by 2.5 within a
    day. Read off before and after what is measured."""
    with stopwatch() as watch:
        total = 0
        for number in range(20_000_000):
            total += number
    return f"20 million additions in Python: {watch.cpu_seconds:.1f} CPU s (load {os.getloadavg()[0]:.1f})"


@dataclass
class Watch:
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Watch]:
    """Seconds of the block by the wall clock, and CPU seconds of this process with all its threads."""
    watch = Watch()
    start, cpu = time.perf_counter(), time.process_time()
    try:
        yield watch
    finally:
        watch.seconds, watch.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu


def load_libraries() -> None:
    """Imports now what the store's client imports at its first use (pandas, by way of pyarrow), outside any watch."""
    import pyarrow as pa

    pa.table({"x": pa.array([0])})


def peak_bytes() -> int:
    """The most memory this process had resident since it started, or since `reset_peak`."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reset_peak() -> None:
    """Lets the peak start again from what is resident now; without the right to do so it keeps the old one."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def run_apart(
    function: Callable[..., dict[str, Any]], most_bytes: int, of: Path = ROOT, /, **arguments: Any
) -> dict[str, Any] | None:
    """What the function answers in a process of its own; None if it needs more memory than `most_bytes`.

    of: another checkout, with a .venv in it, whose function of that name is meant. Arguments and answer travel as JSON.
    Errors: BenchError if the process fails in another way.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as folder:
        answer = Path(folder) / "answer.json"
        python = sys.executable if of == ROOT else str(of / ".venv" / "bin" / "python")
        command = [python, "-m", "bench.child", name, str(answer), json.dumps(arguments)]
        process = subprocess.Popen(command, cwd=of, stdout=sys.stderr)
        too_large = _wait(process, most_bytes)
        if too_large or process.returncode == -signal.SIGKILL:
            return None
        if process.returncode != 0 or not answer.exists():
            raise BenchError(f"{name} failed (exit {process.returncode}); its message is above")
        result: dict[str, Any] | None = json.loads(answer.read_text(encoding="utf-8"))
        return result


def run_command(command: Sequence[str], most_bytes: int, output: Path) -> dict[str, Any] | None:
    """What a command cost: seconds, cpu_seconds and peak_bytes, its start included; None if it needs more memory.

    Errors: BenchError if it fails in another way; what it prints is in `output`.
    """
    with output.open("wb") as file:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=file)
        too_large, ended = False, 0
        try:
            while not ended:
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if not ended and _resident_bytes(process.pid) > most_bytes:
                    too_large = True
                    process.kill()
                time.sleep(0 if ended else POLL_SECONDS)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if not ended:
                process.kill()
                process.wait()
        seconds = time.perf_counter() - start
    if too_large or process.returncode == -signal.SIGKILL:
        return None
    if process.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed (exit {process.returncode}); its message is above")
    return {
        "seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024
    }  # fmt: skip


def needed(result: dict[str, Any] | None, what: str) -> dict[str, Any]:
    """The answer of a piece that the run cannot do without."""
    if result is None:
        raise BenchError(f"{what} ran out of memory; try fewer --devices or --days")
    return result


def _wait(process: subprocess.Popen[bytes], most_bytes: int) -> bool:
    """Waits for the end, or ends the process when it is too large. Answers whether it was."""
    try:
        while process.poll() is None:
            if _resident_bytes(process.pid) > most_bytes:
                process.kill()
                process.wait()
                return True
            time.sleep(POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return False


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * resource.getpagesize()
