"""Many mutants of an area in one process: `python -m tests.mutants.quick --kept FOLDER --out LOG -n 300 --seed 1`.

A run of pytest costs seconds before its first test, and books cost more: here both are made once. A fault of Python
takes the place of the code of the functions that it is in, and of its file in a copy of the tree, for processes that
tests start; then those tests run that reach it (`reach`), what is quick first, until one fails. What an import runs is
not tried, and books that tests read are not made again: what is caught is caught, and what survives is a hint where to
look.

billing/ (the default) is asked of golden files: first come those without a store, then, of what they let pass
(`--only`), one file with a store at a time: its books stay open. Of other areas (`--path access`) all tests that
`OF_AREA` names are asked, those, too, of which fixtures alone reach a fault: these are made anew.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Annotated, Any

import pytest
import typer
from _pytest.runner import runtestprotocol

from tests.draws import SEED
from tests.mutants.areas import area_of
from tests.mutants.draw import draw, faults_in
from tests.mutants.fault import Fault
from tests.mutants.reach import Kept, LifeKept
from tests.mutants.trial import copies, write_source

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = [f"tests/billing/test_golden_{name}.py" for name in ("advice", "rules", "queries", "files", "pages")]
"""Those without a store."""
OF_AREA = (
    {"billing": GOLDEN}
    | {area: [f"tests/{area}", f"tests/gpuledger/test_{area}_commands.py"] for area in ("access",)}
    | {"alerts": ["tests/alerts", "tests/gpuledger/test_alerts_command.py"]}
)


def functions_of(file: str) -> dict[str, list[FunctionType]]:
    """Those that live of a source, by their qualified names."""
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == file:
            found.setdefault(one.__code__.co_qualname, []).append(one)
    return found


def codes_of(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes_of(one)


HANGS_SECONDS = 20
"""Of CPU, in which a test comes to its end; one that takes long without a fault has HANGS_TIMES as long."""
HANGS_TIMES = 3
HANGS_WHILE_WAITING = 40
"""Seconds of the clock, for a test that waits for what does not come."""


class Swapped:
    """The code of a module's functions, that of another text of it."""

    def __init__(self, file: Path, text: str) -> None:
        living = functions_of(str(file))
        self._were: list[tuple[FunctionType, CodeType]] = []
        for code in codes_of(compile(text, str(file), "exec", dont_inherit=True)):
            for one in living.get(code.co_qualname, ()):
                if code.co_freevars == one.__code__.co_freevars and code != one.__code__:
                    self._were.append((one, one.__code__))
                    one.__code__ = code
        self.functions = [one.__qualname__ for one, _ in self._were]

    def back(self) -> None:
        for one, code in self._were:
            one.__code__ = code


def forget(area: str) -> None:
    """What functions have cached: it was computed with another code."""
    for name, module in list(sys.modules.items()):
        if name.startswith(area):
            for one in list(vars(module).values()):
                if hasattr(one, "cache_clear"):
                    one.cache_clear()


def leave(session: pytest.Session) -> None:
    """What a module's fixtures made is made anew; what the session's made stays."""
    state = session._setupstate
    there = {node.path for node in state.stack if isinstance(node, pytest.Module)}
    state.teardown_exact(next((item for item in session.items if item.path not in there), None))


class Quick:
    """Of one mutant after the other, in place of pytest's loop over tests."""

    def __init__(
        self, root: Path, sample: Sequence[Fault], kept: Kept, out: Path, seconds: float, area: str = "billing"
    ) -> None:
        self._root, self._sample, self._kept, self._out, self._seconds = root, sample, kept, out, seconds
        self._area = area

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        signal.signal(signal.SIGVTALRM, hangs)
        signal.signal(signal.SIGALRM, hangs)
        gc.unfreeze()  # what is frozen is not among the objects that live
        items = {item.nodeid: item for item in session.items}
        costs = self._kept.reach.seconds
        done = set(self._out.read_text(encoding="utf-8").splitlines()) if self._out.exists() else set()
        tried = {line.partition("\t")[2].partition("\t")[0] for line in done}
        with self._out.open("a", encoding="utf-8") as log:
            for fault in self._sample:
                if str(fault) in tried:
                    continue
                contexts = self._kept.reach.contexts(self._root, fault)
                asked = self._asked(items, contexts or set())
                began = time.process_time()
                said = "import" if contexts is None else self._try(fault, asked) if asked else "unreached"
                error = None
                if said.startswith("caught"):
                    (item,) = [one for one in asked if f"caught by {one.nodeid}" == said]
                    error = self._failed(item)
                    # On a busy machine a test may fail once: with the fault it fails again, without it it does not.
                    if not error and not self._try(fault, [item]).startswith("caught"):
                        said = "undecided"
                spent = time.process_time() - began
                whole = sum(costs.get(one.nodeid, 0.0) for one in asked)
                print(said, fault, f"{spent:.1f} of {whole:.0f}", sep="\t", file=log, flush=True)
                if error:
                    print("spoiled", said, "", sep="\t", file=log, flush=True)
                    print(error, file=sys.stderr)
                    os._exit(3)
        return True

    def _asked(self, items: Mapping[str, pytest.Item], contexts: set[str]) -> list[pytest.Item]:
        """What is quick first; in areas whose fixtures are made anew, files with few seconds first."""
        costs = self._kept.reach.seconds
        if self._area == "billing":
            return sorted((items[test] for test in contexts if test in items), key=lambda item: costs[item.nodeid])
        asked = [item for name, item in items.items() if name in contexts or name.partition("::")[0] in contexts]
        files: dict[Path, float] = defaultdict(float)
        for item in asked:
            files[item.path] += costs.get(item.nodeid, 0.0)
        return sorted(asked, key=lambda item: (files[item.path], item.path, costs.get(item.nodeid, 0.0)))

    def _try(self, fault: Fault, asked: list[pytest.Item]) -> str:
        path = self._root / fault.path
        text = path.read_text(encoding="utf-8")
        swapped = None
        if self._area != "billing":
            leave(asked[0].session)
        if path.suffix == ".py":
            importlib.import_module(fault.path.removesuffix(".py").replace("/", "."))
            swapped = Swapped(path, fault.mutate())
            if not swapped.functions:
                return "not swapped"
        write_source(path, fault.mutate())
        try:
            until = time.process_time() + self._seconds
            for item in asked:
                forget(self._area)
                if self._failed(item):
                    return f"caught by {item.nodeid}"
                if time.process_time() > until:
                    return "undecided"
            return "survived"
        finally:
            if swapped:
                swapped.back()
            write_source(path, text)
            forget(self._area)
            if self._area != "billing":
                leave(asked[0].session)
            shutil.rmtree(self._root / ".hypothesis", ignore_errors=True)  # what failed is not tried first on others

    def _failed(self, item: pytest.Item) -> str | None:
        """Its module's fixtures stay, if another test of it comes next."""
        others = [one for one in item.session.items if one is not item]
        other = next((one for one in others if one.path == item.path), others[0] if others else None)
        assert isinstance(item, pytest.Function)
        item._initrequest()  # else the fixtures of the run before are given again
        item.session._setupstate.teardown_exact(item)  # the module before, if this one is another: else setup fails
        usual = self._kept.reach.seconds.get(item.nodeid, 0.0)
        signal.setitimer(signal.ITIMER_VIRTUAL, max(HANGS_SECONDS, HANGS_TIMES * usual))
        signal.setitimer(signal.ITIMER_REAL, HANGS_WHILE_WAITING + HANGS_TIMES * usual)
        try:
            for report in runtestprotocol(item, log=False, nextitem=other):
                if report.failed:
                    return str(report.longrepr)
            return None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)


def hangs(*_: object) -> None:
    raise TimeoutError("the test does not come to an end")


def main(
    tests: Annotated[list[str] | None, typer.Argument(help="Else those of OF_AREA.")] = None,
    kept: Annotated[Path, typer.Option(help="The map and the books of the tests; made if it is not there.")] = Path(
        "build/reach"
    ),
    out: Annotated[Path, typer.Option(help="A line a mutant; what is in it is not tried again.")] = Path(
        "build/quick.tsv"
    ),
    paths: Annotated[list[str] | None, typer.Option("--path")] = None,
    number: Annotated[int, typer.Option("-n", "--number")] = 300,
    seed: int = 1,
    only: Annotated[Path | None, typer.Option(help="Of the sample what stands in this file, a line each.")] = None,
    seconds: Annotated[float, typer.Option(help="CPU seconds for a mutant; then it is undecided.")] = 60,
) -> None:
    """Tries many mutants of an area by its own tests alone, in one process. Exit 3: a mutant spoiled the books; begin
    again, and it goes on after that one."""
    paths = paths or ["billing"]
    area = area_of(paths[0])
    tests, known, out = tests or OF_AREA[area], Kept(kept.resolve()), out.resolve()
    only = only and only.resolve()
    with copies(ROOT, 1) as (copy,):
        os.chdir(copy.root)
        sys.path.insert(0, str(copy.root))
        scratch = copy.root.parent / "scratch"
        scratch.mkdir()
        os.environ |= {"TMPDIR": str(scratch), SEED: "0", "PYTHONPATH": str(copy.root)}
        if not known.is_made:
            known.make(tests, area)
        os.environ |= known.environment()
        sample = draw(faults_in(copy.root, paths), number, seed)
        if only:
            wanted = set(only.read_text(encoding="utf-8").splitlines())
            sample = [one for one in sample if str(one) in wanted]
        plugins: list[Any] = [Quick(copy.root, sample, known, out, seconds, area)]
        if any("golden_three_months" in test for test in tests):
            plugins.append(LifeKept(known.folder / "life"))
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins))


if __name__ == "__main__":
    typer.run(main)
