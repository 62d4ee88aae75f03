"""A mutant and its tests, in a copy of the tree."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.draws import SEED
from tests.mutants.areas import asked
from tests.mutants.fault import Fault

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\[.*?\](?= - |$)|\S+)", re.MULTILINE)
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
TAIL = 4000
_stamps = itertools.count(int(time.time()) + 10)


class MutantsError(Exception):
    """The tool cannot work: where, what, the next step."""


class Verdict(StrEnum):
    caught = "caught"
    timeout = "timeout"
    survived = "survived"
    undecided = "undecided"
    """No test had failed when its time was over, or none of those that were chosen. It counts as survived."""
    broken = "broken"
    """No answer: pytest itself failed, or the test fails without the fault too. It counts as survived."""


@dataclass(frozen=True)
class Trial:
    """by: the test that failed first; of a broken run the end of what it said.   seconds: of all runs."""

    fault: Fault
    verdict: Verdict
    by: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        return self.verdict in (Verdict.caught, Verdict.timeout)


@dataclass(frozen=True)
class Limits:
    """quiet_seconds: in which a test must end, else the fault made it hang.   seconds: of a run of pytest."""

    quiet_seconds: float = 600
    seconds: float = float("inf")


class Copy:
    """The tree without what git ignores, in a scratch folder; `shared/` beside it is where it was."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder / "tree"
        self._scratch = folder / "tmp"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if listed.returncode:
            raise MutantsError(f"mutants: {root}: git lists no files ({listed.stderr.strip()}). Run it in a checkout")
        for name in listed.stdout.split("\0"):
            if name and (root / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.root / name)
        for ignored in (".venv", ".venv-focus"):
            if (root / ignored).exists():
                (self.root / ignored).symlink_to((root / ignored).resolve())
        if (root.parent / "shared").exists():
            (folder / "shared").symlink_to((root.parent / "shared").resolve())

    @contextmanager
    def mutated(self, fault: Fault) -> Iterator[None]:
        path = self.root / fault.path
        original = path.read_text(encoding="utf-8")
        try:
            write_source(path, fault.mutate())
            yield
        finally:
            write_source(path, original)

    def run(self, tests: Sequence[str], limits: Limits, *options: str) -> tuple[int | Verdict, str]:
        """pytest's exit status, or the verdict of a limit, and what it said."""
        self._scratch.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(self.root), "TMPDIR": str(self._scratch), SEED: "0"}
        output = self._scratch / "output"
        command = [sys.executable, *PYTEST, *options, *tests]
        try:
            with (
                output.open("wb") as stream,
                subprocess.Popen(
                    command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=stream,
                    stderr=subprocess.STDOUT, start_new_session=True,
                ) as process,
            ):  # fmt: skip
                try:
                    status = _status(process, output, limits)
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            return status, output.read_text(encoding="utf-8", errors="replace")
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
            # What failed for one mutant is not tried first on others.
            shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)

    def check_itself(self) -> None:
        """An editable install must not have the last word about which tree is imported."""
        code = "import billing; print(billing.__path__[0])"
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        command = [sys.executable, "-c", code]
        said = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        if Path(said.stdout.strip()) != self.root / "billing":
            raise MutantsError(f"mutants: the tests would import {said.stdout.strip() or said.stderr}, not {self.root}")


class Control:
    """A test that failed must pass without the fault, else it says nothing about it. Each is asked once."""

    def __init__(self) -> None:
        self._passes: dict[str, bool] = {}

    def passes(self, copy: Copy, test: str) -> bool:
        if test not in self._passes:
            options = () if "::" in test else ("--collect-only",)
            self._passes[test] = copy.run([test], Limits(), *options)[0] == 0
        return self._passes[test]


def try_out(copy: Copy, fault: Fault, control: Control, limits: Limits, chosen: Sequence[str] = ()) -> Trial:
    """By all tests that concern the file, or by the chosen ones."""
    began = time.monotonic()
    verdict, by = Verdict.survived, ""
    with copy.mutated(fault):
        for tests in [chosen] if chosen else asked(copy.root, fault.path):
            verdict, by = judged(*copy.run(tests, limits))
            if verdict is not Verdict.survived:
                break
    if verdict is Verdict.survived and chosen:
        verdict = Verdict.undecided
    if verdict is Verdict.caught and by and not control.passes(copy, by):
        verdict = Verdict.broken
    return Trial(fault, verdict, by, time.monotonic() - began)


def judged(status: int | Verdict, output: str) -> tuple[Verdict, str]:
    """What pytest's exit status says (https://docs.pytest.org/en/stable/reference/exit-codes.html), and by which test.

    A test's failure is one only if pytest names it; an engine that a fault makes crash ends pytest by a signal.
    """
    if isinstance(status, Verdict):
        return status, ""
    failed = FAILED.search(output)
    if status in (1, 2) and failed:
        return Verdict.caught, failed[1]
    if status < 0:
        return Verdict.caught, ""
    if status in (0, 5):
        return Verdict.survived, ""
    return Verdict.broken, output[-TAIL:]


@contextmanager
def copies(root: Path, number: int, folder: Path | None = None) -> Iterator[list[Copy]]:
    with tempfile.TemporaryDirectory(prefix="gpuledger-mutants-", dir=folder) as name:
        Path(name).chmod(0o755)  # the user whose PostgreSQL a test runs finds its folder there
        made = [Copy(root, Path(name).resolve() / str(index)) for index in range(number)]
        made[0].check_itself()
        yield made


def _status(process: subprocess.Popen[bytes], output: Path, limits: Limits) -> int | Verdict:
    """A hang shows in one test: how long all of them take depends on what else the machine does."""
    began = since = time.monotonic()
    size = -1
    while (status := process.poll()) is None:
        now, written = time.monotonic(), output.stat().st_size
        if written != size:
            size, since = written, now
        elif now - since > limits.quiet_seconds:
            return Verdict.timeout
        if now - began > limits.seconds:
            return Verdict.undecided
        time.sleep(0.2)
    return status


def write_source(path: Path, text: str) -> None:
    """With a time of its own: compiled code is known by seconds and size, and `<` is as long as `>`."""
    path.write_text(text, encoding="utf-8")
    stamp = next(_stamps)
    os.utime(path, (stamp, stamp))
