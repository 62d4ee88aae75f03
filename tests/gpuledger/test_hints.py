"""Next steps, as a person copies them: they reach the store that was given to the command which named them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from gpuledger.cli import build, main
from gpuledger.hints import _given, with_store
from tests.gpuledger.running import run


@pytest.fixture(autouse=True)
def nothing_given() -> Iterator[None]:
    token = _given.set(None)
    yield
    _given.reset(token)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"chdb://{tmp_path}/a store"


def test_a_next_step_names_the_store_that_was_given(url: str) -> None:
    said = run("queries save", "my q, x", "SELECT 1", "--store", url).stderr
    (step,) = (line.partition("Next: ")[2] for line in said.splitlines() if "Next: " in line)
    _, *words = shlex.split(step)
    assert words == ["sql", "--saved", "my q, x", "--store", url]
    assert run("", *words).stdout.split() == ["1", "1"]


def test_a_next_step_leaves_the_store_of_the_environment_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run("rates list", "--store", url)
    monkeypatch.setenv("GPULEDGER_STORE", url)
    assert run("rates list").stderr.splitlines()[-1] == "no rate card yet. Next: gpuledger rates apply FILE"


def test_an_error_names_the_store_too(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["invoice", "show", "GL-2026-00009", "--store", url])
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"gpuledger: invoice show: no such invoice. See: gpuledger invoice list --store '{url}'"
    )


def give(url: str) -> None:
    """As a command line does."""
    app = typer.main.get_command(build())
    root = app.context_class(app, info_name="gpuledger")
    close = app.get_command(root, "close")  # type: ignore[attr-defined]
    close.make_context("close", ["--store", url], parent=root)


S = " --store chdb:///b"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 claim refused (gpuledger doctor shows them)", f"1 claim refused (gpuledger doctor{S} shows them)"),
        ("Next: gpuledger users add NAME --role admin", f"Next: gpuledger users add NAME --role admin{S}"),
        ("Next: gpuledger ingest devices FILE, then events", f"Next: gpuledger ingest devices FILE{S}, then events"),
        (
            "Run: gpuledger close --until 2026-11-01T00:00:00.000Z. Then",
            f"Run: gpuledger close --until 2026-11-01T00:00:00.000Z{S}. Then",
        ),
        ("gpuledger credits add --amount -5 --id ANOTHER", f"gpuledger credits add --amount -5 --id ANOTHER{S}"),
        ("See: gpuledger invoice list, gpuledger ledger", f"See: gpuledger invoice list{S}, gpuledger ledger{S}"),
        ("See: gpuledger invoice show GL-2026-00001", f"See: gpuledger invoice show GL-2026-00001{S}"),
        ("gpuledger exporter URL shows what they say", "gpuledger exporter URL shows what they say"),
        ("Next: gpuledger verify --store chdb:///c", "Next: gpuledger verify --store chdb:///c"),
        ("a gpuledger server", "a gpuledger server"),
        (
            "Missing option. See: gpuledger report preview --help",
            "Missing option. See: gpuledger report preview --help",
        ),
        ("gpuledger: output: no such file", "gpuledger: output: no such file"),
    ],
)
def test_only_commands_that_take_a_store_get_it(line: str, expected: str) -> None:
    give("chdb:///b")
    assert with_store(line) == expected


def test_a_next_step_repeats_no_password() -> None:
    give("clickhouse://ada:secret@host:8123/books")
    assert with_store("Next: gpuledger close") == "Next: gpuledger close --store clickhouse://ada@host:8123/books"
