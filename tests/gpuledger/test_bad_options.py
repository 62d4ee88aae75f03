"""Values that no command can use, given to each option that could take them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.reference import commands
from gpuledger.cli import MAY_BE_EMPTY, build
from gpuledger.cli import run as run_app
from gpuledger.kubectl.cli import app as plugin
from tests.gpuledger.running import refused, run
from warehouse.errors import LedgerError

ADDRESSES = {"store", "url", "prometheus"}
"""Options and arguments that take a URL, by name."""
SECRET = "s3cret"


def test_a_url_that_cannot_be_read_is_refused_by_every_option_without_repeating_it() -> None:
    taking = [(words, one) for words, command in commands() for one in command.params if one.name in ADDRESSES]
    assert {"agent", "exporter", "watch slurm", "scheduler list", "up", "mcp", "sql"} <= {words for words, _ in taking}
    assert [words for words, one in taking if one.callback is None] == []
    for url in (f"http://u:{SECRET}@127.0.0.1:x", "http://127.0.0.1:99999", "https://[bad", "clickhouse://[bad/d"):
        for words in ("ledger --store", "rates list --store", "watch slurm --cluster c --url", "scheduler list --url",
                      "agent --url", "exporter", "up --prometheus"):  # fmt: skip
            said = refused(words, url)
            assert "is not an address" in said and SECRET not in said, words


def test_an_address_of_several_nodes_is_one_of_a_store() -> None:
    assert "HOST:PORT" in refused("ledger", "--store", "clickhouse://u@db1:8123,db2:x/d")  # and not the first of them


def test_of_a_name_that_is_given_twice_none_is_silently_without_effect() -> None:
    """init's are all taken: a user of several tenants."""
    named = {
        words
        for words, command in commands()
        for one in command.params
        if (getattr(one, "multiple", False) or one.nargs == -1) and "=" in f"{one.metavar} {getattr(one, 'help', '')}"
    }
    assert named == {"alerts silence add", "init", "retention"}
    assert "samples is named twice" in refused("retention --keep samples=10 --keep samples=20")
    assert "is the second matcher of a" in refused("alerts silence add a=1 a=2 --reason x --for 1h")
    assert "has an option twice" in refused("backup --list --bucket s3://x?region=a&region=b")


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
def test_no_number_of_an_option_is_nan_or_infinite(number: str) -> None:
    floats = [
        (words, one)
        for words, command in commands()
        for one in command.params
        if "float" in str(one.type_descriptor.annotation)
    ]
    assert len(floats) > 10
    assert [words for words, one in floats if one.callback is None] == []
    for typed in ("interference aggressors --days", "watch slurm --cluster c --every", "simulate capacity --quantile"):
        done = run(typed, number)
        assert done.exit_code == 2 and isinstance(done.exception, SystemExit), (typed, done.output, done.exception)


@pytest.mark.parametrize("typed", ["interference victims --days", "close --grace-minutes", "savings --idle-hours"])
def test_a_span_is_none_that_a_calendar_does_not_have(typed: str) -> None:
    done = run(f"{typed} 99999999999999", "--store", "chdb://memory")
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), (typed, done.output, done.exception)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("ledger --limit -1", "Invalid value for '--limit': Input should be greater than or equal to 0. See: "),
        ("ledger --limt 3", "No such option: --limt"),
        (
            "efficiency --format yaml",
            "Invalid value for '--format': 'yaml' is not one of 'table', 'json', 'csv'. See: ",
        ),
        ("ledger --by", "Option '--by' requires an argument"),
        ("leger", "No such command 'leger'. Did you mean 'ledger'? See: gpuledger --help"),
        ("invoice isue", "No such command 'isue'. Did you mean 'issue'? See: "),
    ],
)
def test_what_is_not_understood_is_one_line(
    typed: str, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["gpuledger"])
    with pytest.raises(SystemExit) as left:
        run_app(build(), typed.split())
    out, err = capsys.readouterr()
    assert (left.value.code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"gpuledger: {line}")


def test_the_plugin_of_kubectl_refuses_them_too() -> None:
    from typer.testing import CliRunner

    error: Any = CliRunner().invoke(plugin, ["cost", "--url", "http://127.0.0.1:x"]).exception
    assert "is not an address" in str(error)


def test_help_shows_no_value_of_a_flag_because_it_takes_none() -> None:
    for words in ("", "up", "invoice issue", "watch kubernetes"):
        shown = run(f"{words} --help").output
        assert "--help" in shown and "bool" not in shown, words


def test_an_empty_text_is_refused_where_none_is_meant() -> None:
    """`close --until "$UNTIL"` closed every hour when the variable was not set."""
    taking = [
        (words, command, one)
        for words, command in (*commands(), *commands(typer.main.get_command(plugin)))
        for one in command.params
        if one.name not in MAY_BE_EMPTY and re.search(r"\bstr\b|Path", str(one.type_descriptor.annotation))
    ]
    assert len(taking) > 400
    assert {"until", "period", "tenant", "month", "at", "folder", "job_id"} <= {one.name for *_, one in taking}
    for words, command, one in taking:
        places = [other.name for other in command.params if other.param_type_name == "argument"]
        before = places[: places.index(one.name)] if one.name in places else []
        given = ["samples" if name == "records" else "1" for name in before] if one.name in places else [one.opts[0]]
        with pytest.raises(LedgerError, match=r"^\S+: is empty\. If a shell variable"):
            command.make_context(words, [*given, ""])
    assert "--until: is empty" in refused("close", "--until", " ")


def test_an_empty_variable_of_the_environment_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As shells and Kubernetes' manifests set them."""
    monkeypatch.setenv("GPULEDGER_BACKUPS_BUCKET", "")
    assert "is empty" not in str(run("backup --list", str(tmp_path)).exception)


def test_what_may_be_empty_is_known_by_its_command() -> None:
    known = {one.name for _, command in commands() for one in command.params}
    assert set(MAY_BE_EMPTY) <= known
