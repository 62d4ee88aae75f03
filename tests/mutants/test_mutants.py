"""The tool that measures the tests: its faults are those it names, and its verdicts are true."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.draws import seldom
from tests.mutants.areas import TESTS
from tests.mutants.draw import draw
from tests.mutants.fault import Fault
from tests.mutants.python import faults_of_python
from tests.mutants.quick import Quick, Swapped
from tests.mutants.reach import Kept, statement_lines
from tests.mutants.sql import faults_of_sql
from tests.mutants.trial import Control, Copy, Limits, Verdict, judged, try_out

PYTHON = [
    ("x = a < b", {"x = a <= b"}),
    ("x = a + b", {"x = a - b"}),
    ("x += b", {"x -= b", "x = b"}),
    ("x = n[1]", {"x = n[2]"}),
    ("x = a and b", {"x = a or b", "x = (a)", "x = (b)"}),
    ("x = f(a, b)", {"x = f(b, a)"}),
    ("x = f(a, 's')", set()),
    ("x = f(a, k=b)", {"x = f(a)"}),
    ("x = zip(a, b, strict=True)", set()),
    ("x = min(a, b)", {"x = max(a, b)", "x = (a)", "x = (b)"}),
    ("x = [i for i in a if i]", {"x = [i for i in a]"}),
    ("charge(a)", {"pass"}),
    ("raise Refused(a)", {"pass"}),
    ("x: int | None = a", set()),
    ("from a import b", set()),
]
SQL = [
    ("SELECT a WHERE a < b", {"SELECT a WHERE a <= b"}),
    ("SELECT a - b", {"SELECT a + b"}),
    ("SELECT -b", set()),
    ("SELECT f(-b)", set()),
    ("SELECT least(a, b)", {"SELECT greatest(a, b)", "SELECT (a)", "SELECT (b)"}),
    ("SELECT argMin(a, b)", {"SELECT argMax(a, b)", "SELECT argMin(b, a)"}),
    ("SELECT ifNull(a, f(b))", {"SELECT (a)", "SELECT ifNull(f(b), a)"}),
    ("SELECT if(c, a, b)", {"SELECT if(c, b, a)"}),
    ("SELECT multiIf(c, a, d, b, e)", {"SELECT multiIf(c, a, d, e, b)"}),
    ("SELECT a SETTINGS b = 1, c = 2 UNION ALL SELECT d", {"SELECT a SETTINGS b = 1, c = 2 UNION DISTINCT SELECT d"}),
    (
        "SELECT f(x -> x > a AND b, c)",
        {
            "SELECT f(x -> x >= a AND b, c)",
            "SELECT f(x -> x > a OR b, c)",
            "SELECT f(x -> x > a , c)",
            "SELECT f(x -> b, c)",
        },
    ),
    ("CREATE TABLE t (a UInt8) ENGINE = Memory", set()),
    ("SELECT a FROM t LEFT JOIN u USING (k)", {"SELECT a FROM t INNER JOIN u USING (k)"}),
    ("SELECT a UNION ALL SELECT b", {"SELECT a UNION DISTINCT SELECT b"}),
    ("SELECT a WHERE b AND c", {"SELECT a WHERE b OR c", "SELECT a WHERE b", "SELECT a WHERE c"}),
    (
        "SELECT a WHERE b AND f(c AND d) AND e GROUP BY a",
        {
            "SELECT a WHERE b OR f(c AND d) AND e GROUP BY a",
            "SELECT a WHERE b AND e GROUP BY a",
            "SELECT a WHERE f(c AND d) AND e GROUP BY a",
            "SELECT a WHERE b AND f(c OR d) AND e GROUP BY a",
            "SELECT a WHERE b AND f(c) AND e GROUP BY a",
            "SELECT a WHERE b AND f(d) AND e GROUP BY a",
            "SELECT a WHERE b AND f(c AND d) OR e GROUP BY a",
            "SELECT a WHERE b AND f(c AND d) GROUP BY a",
        },
    ),
    ("SELECT a WHERE b BETWEEN c AND d", set()),
    ("SELECT a WHERE b IS NOT NULL", {"SELECT a WHERE b IS NULL"}),
    ("SELECT a WHERE b IN (c)", {"SELECT a WHERE b NOT IN (c)"}),
    ("SELECT a WHERE b NOT IN (c)", {"SELECT a WHERE b IN (c)"}),
    ("SELECT a ORDER BY b DESC", {"SELECT a ORDER BY b"}),
    ("SELECT a / 3600", {"SELECT a / 3601"}),
    ("SELECT '<' -- a < 1\n, {a:DateTime64(3, 'UTC')}, toDateTime64(a, 3, 'UTC')", set()),
]
MODULE = """\
def rounded(value):
    if value < 0:
        return -rounded(0 - value)
    return value + 1
"""
TEST = """\
import os
from scheduler.rounding import rounded

def test_rounded():
    assert rounded(1) == 2

def test_that_never_passes():
    assert rounded(5) == 6 and 'NEVER' not in os.environ
"""


@pytest.mark.parametrize(("text", "expected"), PYTHON, ids=[text for text, _ in PYTHON])
def test_faults_of_python_are_those(text: str, expected: set[str]) -> None:
    mutants = [fault.mutate().strip() for fault in faults_of_python("a.py", text + "\n")]
    assert set(mutants) == expected
    assert len(mutants) == len(expected)


@pytest.mark.parametrize(("text", "expected"), SQL, ids=[text for text, _ in SQL])
def test_faults_of_sql_are_those(text: str, expected: set[str]) -> None:
    mutants = [
        " ".join(fault.mutate().split()).replace("( ", "(").replace(" )", ")") for fault in faults_of_sql("a.sql", text)
    ]
    assert set(mutants) == expected
    assert len(mutants) == len(expected)


def test_a_sample_is_that_of_its_seed_and_has_a_line_once() -> None:
    text = "\n".join(f"a{line} = b + c < d and e" for line in range(60))
    faults = list(faults_of_python("a.py", text))
    sample = draw(faults, 30, 7)
    assert sample == draw(faults, 30, 7) != draw(faults, 30, 8)
    assert len({fault.line for fault in sample}) == 30
    assert len({fault.what for fault in sample}) > 4


def test_a_fault_says_where_it_is() -> None:
    (fault,) = faults_of_sql("a.sql", "SELECT a\nFROM b\n  WHERE c <= d")
    assert str(fault) == "a.sql:3:11: <= -> <"
    (fault,) = faults_of_python("a.py", "def f(a, b):\n    return a <= b\n")
    assert str(fault) == "a.py:2:13: <= b -> < b"


@pytest.mark.parametrize(
    ("status", "output", "verdict"),
    [
        (0, "1 passed", Verdict.survived),
        (5, "no tests ran", Verdict.survived),
        (1, "FAILED tests/a.py::b[c d] - assert 1 == 2", Verdict.caught),
        (2, "ERROR tests/a.py - ImportError", Verdict.caught),
        (1, "nobody says which", Verdict.broken),
        (3, "INTERNALERROR", Verdict.broken),
        (4, "ERROR: file or directory not found: tests/a.py", Verdict.broken),
        (-11, "", Verdict.caught),
        (Verdict.timeout, "", Verdict.timeout),
    ],
)
def test_only_a_test_that_fails_or_never_ends_catches(status: int | Verdict, output: str, verdict: Verdict) -> None:
    assert judged(status, output)[0] is verdict


def test_a_caught_test_is_named_without_its_reason() -> None:
    assert judged(1, "FAILED tests/a.py::b[c d] - assert 1 == 2")[1] == "tests/a.py::b[c d]"


def test_a_line_of_a_function_is_known_by_its_statement_and_one_of_a_module_is_not() -> None:
    text = "A = 1\ndef f(\n    a=2,\n):\n    if a:\n        return g(\n            a,\n        )\n    return 0\n"
    assert [statement_lines(text, line) for line in (1, 3, 5, 7, 9)] == [set(), set(), {5}, {6, 7, 8}, {9}]


def test_a_functions_code_is_that_of_another_text_until_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "rounding_of_a_test.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("rounding_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = module.rounded(3)
    swapped = Swapped(path, MODULE.replace("value + 1", "value - 1"))
    assert swapped.functions == ["rounded"]
    assert module.rounded(3) != before
    swapped.back()
    assert module.rounded(3) == before


class TurnAbout(Quick):
    """Asks tests as the quick tool does, one file's after another's."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        a, b, c = session.items
        self.failed = [(item.name, self._failed(item)) for item in (a, c, b, c, c, a)]
        return True


def test_a_test_fails_by_itself_not_because_one_of_another_file_came_before_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text("def test_a(): pass\n\ndef test_b(): pass\n")
    (tmp_path / "test_other.py").write_text("def test_c(): pass\n")
    (tmp_path / "reach.json").write_text("{}")
    asked = TurnAbout(tmp_path, (), Kept(tmp_path), tmp_path / "out", 1)
    pytest.main(["-q", "-p", "no:cacheprovider", str(tmp_path)], [asked])
    assert asked.failed == [(f"test_{name}", None) for name in "acbcca"]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """Of a small tree with a module and a test of it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "_hypothesis_pytestplugin")
    monkeypatch.setenv("NEVER", "1")
    files = {
        "scheduler/__init__.py": "",
        "scheduler/rounding.py": MODULE,
        "tests/scheduler/test_rounding.py": TEST,
        "pytest.ini": "[pytest]\n",
    }
    files |= {name: "def test_nothing(): pass\n" for name in TESTS["scheduler"] if name.endswith(".py")}
    root = tmp_path / "root"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return Copy(root, tmp_path / "copy")


def fault_of(copy: Copy, what: str) -> Fault:
    path = "scheduler/rounding.py"
    (found,) = [one for one in faults_of_python(path, (copy.root / path).read_text()) if one.what == what]
    return found


@seldom(6, "a fault is caught and one that")
def test_a_fault_is_caught_and_one_that_no_test_reaches_survives(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, unreached = fault_of(copy, "value + 1 -> value - 1"), fault_of(copy, "0 - value -> 0 + value")
    control = Control()
    caught = try_out(copy, reached, control, Limits())
    assert (caught.verdict, caught.by) == (Verdict.caught, "tests/scheduler/test_rounding.py::test_rounded")
    assert (copy.root / reached.path).read_text() == MODULE
    # With the fault or without it: what fails anyway catches nothing.
    assert not control.passes(copy, "tests/scheduler/test_rounding.py::test_that_never_passes")
    monkeypatch.delenv("NEVER")
    assert try_out(copy, unreached, control, Limits()).verdict is Verdict.survived
    chosen = ["tests/gpuledger/test_scheduler_command.py"]
    assert try_out(copy, reached, control, Limits(), chosen).verdict is Verdict.undecided
