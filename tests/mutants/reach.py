"""What each golden test reaches: a line of Python that it runs, a statement that it asks the engine.

A plugin of pytest writes it, and lets the books lie that the tests read: those of a module, and those with which each
step of the life of books begins. A trial of a mutant (`quick`) takes them from there.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.fault import Fault
from tests.stores import KEPT

MAP, LIFE, AREA = "GPULEDGER_REACH", "GPULEDGER_LIFE", "GPULEDGER_REACH_AREA"
"""Where the map is written, where the books lie that each step of the life begins with, and the folder it is of."""
OF_A_LIFE = "test_golden_three_months.py::test_after_each_step"
SQL_LINE = 24
"""Letters of a line of a statement by which it is known."""


@dataclass
class Reach:
    """digests: of each source, by its path.   lines: by path and context, from 1; [0] of a statement.
    seconds: of each test.

    A context is a test, a file of tests (what its fixtures reach), or what fills a store.
    """

    digests: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Reach:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def contexts(self, root: Path, fault: Fault) -> set[str] | None:
        """None: nobody knows, since the file is another than then, or the fault is in what an import runs."""
        path = root / fault.path
        if digest(path) != self.digests.get(fault.path):
            return None
        lines = {0} if path.suffix == ".sql" else statement_lines(path.read_text(encoding="utf-8"), fault.line)
        if not lines:
            return None
        of_file = self.lines.get(fault.path, {})
        return {context for context, reached in of_file.items() if lines.intersection(reached)}


@dataclass(frozen=True)
class Kept:
    """A folder with the map, the stores that were filled while it was made, and each step's books of the life."""

    folder: Path

    @functools.cached_property
    def reach(self) -> Reach:
        return Reach.read(self.folder / "reach.json")

    @property
    def is_made(self) -> bool:
        return (self.folder / "reach.json").exists()

    def environment(self) -> dict[str, str]:
        """In which tests make it, or find their books in it."""
        return {KEPT: f"{self.folder}/stores", LIFE: f"{self.folder}/life"}

    def make(self, tests: Sequence[str], area: str) -> None:
        """Runs the tests once; whether they pass is for others."""
        for name in ("stores", "life"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.reach", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, **self.environment(), MAP: f"{self.folder}/reach.json", AREA: area}
        subprocess.run(command, env=environment, check=False)


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:16]


def statement_lines(text: str, line: int) -> set[int]:
    """Of the statement in a function that a line belongs to; of one with a body its head alone. None of it runs where
    a module is imported."""
    found: set[int] = set()

    def look(body: Iterable[ast.AST], inside: bool) -> None:
        nonlocal found
        for node in body:
            first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
            if not first <= line <= last:
                if not isinstance(node, ast.stmt):
                    look(ast.iter_child_nodes(node), inside)
                continue
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(node, ast.stmt) and inside and not is_function:
                inner = [one.lineno for name in ("body", "orelse", "finalbody") for one in getattr(node, name, [])[:1]]
                found = set(range(first, min([last + 1, *(at for at in inner if at > first)])))
            look(ast.iter_child_nodes(node), inside or is_function)

    look(ast.parse(text).body, False)
    return found if line in found else set()


class Statements:
    """Which file a text that is asked comes from: known by lines that no other has."""

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        by_line: dict[str, set[str]] = defaultdict(set)
        for path in (path for folder in folders for path in (root / folder).rglob("*.sql")):
            for line in path.read_text(encoding="utf-8").splitlines():
                if len(line.strip()) >= SQL_LINE and not line.lstrip().startswith("--"):
                    by_line[line.strip()].add(str(path.relative_to(root)))
        self._of = {line: next(iter(paths)) for line, paths in by_line.items() if len(paths) == 1}
        self._shared = {line: paths for line, paths in by_line.items() if len(paths) > 1}
        self.asked: set[str] = set()
        self._known: dict[int, set[str]] = {}

    def see(self, sql: str) -> None:
        key = hash(sql)
        if key not in self._known:
            lines = {line.strip() for line in sql.splitlines()}
            found = {self._of[line] for line in lines if line in self._of}
            self._known[key] = found or {path for line in lines for path in self._shared.get(line, ())}
        self.asked |= self._known[key]


class Recorder:
    """The plugin while the map is made."""

    def __init__(self, root: Path, out: Path, area: str) -> None:
        self._root, self._out, self._area = root, out, area
        self._found = Reach()
        self._coverage = coverage.Coverage(data_file=None, branch=False, config_file=False, source=[str(root / area)])
        self._statements = Statements(root, [area])
        self._asked: dict[str, set[str]] = defaultdict(set)
        self._context = ""
        self._file = ""

    def _switch(self, context: str) -> str:
        before, self._context = self._context, context
        self._asked[before] |= self._statements.asked
        self._statements.asked = set()
        self._coverage.switch_context(context or "import")
        return before

    def pytest_configure(self) -> None:
        import tests.stores
        import warehouse.store

        self._coverage.start()
        self._switch("")
        for name in ("rows", "arrow", "command"):
            asks = getattr(warehouse.store.Store, name)

            def seen(store: Any, sql: str, *more: Any, asks: Callable[..., Any] = asks, **named: Any) -> Any:
                self._statements.see(sql)
                return asks(store, sql, *more, **named)

            setattr(warehouse.store.Store, name, seen)
        fresh = tests.stores.fresh_store

        def noted(folder: Any, *fill: Callable[[Any], None]) -> Any:
            return fresh(folder, *(self._noted(one) for one in fill))

        tests.stores.fresh_store = noted

    def _noted(self, fill: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(fill)
        def fills(store: Any) -> None:
            before = self._switch(name_of(fill))
            fill(store)
            self._switch(before)

        return fills

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._file = item.nodeid.partition("::")[0]
        self._switch(self._file)
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._switch(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self._found.seconds[item.nodeid] = round(time.process_time() - began, 3)
            self._switch(self._file)

    def pytest_sessionfinish(self) -> None:
        self._switch("")
        self._coverage.stop()
        data = self._coverage.get_data()
        found = self._found
        for name in data.measured_files():
            path = str(Path(name).relative_to(self._root))
            lines: dict[str, list[int]] = defaultdict(list)
            for line, contexts in data.contexts_by_lineno(name).items():
                for context in contexts:
                    lines[context].append(line)
            found.lines[path] = dict(lines)
        for context, paths in self._asked.items():
            for path in paths:
                found.lines.setdefault(path, {})[context] = [0]
        for pattern in ("*.py", "*.sql"):
            for file in (self._root / self._area).rglob(pattern):
                found.digests[str(file.relative_to(self._root))] = digest(file)
        self._out.write_text(json.dumps(vars(found)), encoding="utf-8")


class LifeKept:
    """Each step's books: kept while the map is made, and taken from there afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: Any = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if OF_A_LIFE in item.nodeid:
            assert isinstance(item, pytest.Function)
            life, number = item.funcargs["life"], item.callspec.params["number"]
            self._begin(life, self._folder / str(number))
        return (yield)

    def _begin(self, life: Any, copy: Path) -> None:
        from warehouse.store import open_store

        path = life.store.path
        life.store.close()
        if MAP in os.environ:
            shutil.copytree(path, copy / "store", symlinks=True)
            (copy / "life").write_bytes(pickle.dumps((life.now, life.steps, life.known, life.cards)))
        elif (copy / "life").exists():
            shutil.rmtree(path)
            shutil.copytree(copy / "store", path, symlinks=True)
            life.now, life.steps, life.known, life.cards = pickle.loads((copy / "life").read_bytes())
        life.store = open_store(f"chdb://{path}")
        life.store.command("SET max_threads = 1")


def name_of(fill: Callable[..., Any]) -> str:
    return f"{fill.__module__}.{fill.__qualname__}"


def pytest_configure(config: pytest.Config) -> None:
    if LIFE in os.environ:
        config.pluginmanager.register(LifeKept(Path(os.environ[LIFE])))
    if MAP in os.environ:
        recorder = Recorder(Path.cwd(), Path(os.environ[MAP]), os.environ[AREA])
        config.pluginmanager.register(recorder)
