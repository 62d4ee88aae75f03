"""A program under another wall clock, which may run faster: another_clock.c says how."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class AnotherClock:
    """A wall clock that shows `start` when the real one shows `began`, and goes `speed` times as fast."""

    began: float
    start: float
    speed: float

    def now(self) -> float:
        return self.start + (time.time() - self.began) * self.speed

    def before(self, command: list[str], folder: Path) -> list[str]:
        """The command, under this clock. folder: where the launcher is built."""
        return [str(launcher(folder)), f"{self.began:.6f}", f"{self.start:.6f}", f"{self.speed:g}", *command]


@cache
def launcher(folder: Path) -> Path:
    made = folder / "another_clock"
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Werror", "-o", str(made), str(Path(__file__).with_suffix(".c"))], check=True
    )
    return made


def missing(folder: Path) -> str:
    """Why no program can be run under another clock here; empty if it can."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return "another clock needs Linux on x86_64"
    if shutil.which("gcc") is None:
        return "no gcc here, to build another clock"
    tried = subprocess.run(
        AnotherClock(time.time(), 1e9, 1).before(["date", "+%Y"], folder), capture_output=True, text=True, check=False
    )
    return "" if tried.stdout == "2001\n" else f"no program can be traced here: {tried.stderr}"
