"""`gpuledger simulate fragmentation` as a user runs it, on four pods and two nodes; `simulate capacity` on the books of
a small cluster."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from billing.close import close
from billing.rates import apply_rate_card, parse_rate_card
from gpuledger.commands import simulate
from tests.scheduler.test_fragmentation_experiment import SMALL
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store


@pytest.fixture
def app() -> typer.Typer:
    """The command group alone."""
    app = typer.Typer()
    app.callback()(lambda: None)
    simulate.register(app)
    return app


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def arguments(data: Path, *more: str) -> list[str]:
    return ["simulate", "fragmentation", "--data", str(data), "--workload", "tiny", "--seeds", "7", *more]


def test_csv_has_a_row_a_seed_and_a_column_a_percent(app: typer.Typer, data: Path) -> None:
    result = CliRunner().invoke(app, arguments(data, "--policy", "bestfit", "--format", "csv"))
    assert result.exit_code == 0, result.output
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert list(row) == ["workload", "policy", "seed", *map(str, range(131))]
    assert (row["workload"], row["policy"], row["seed"]) == ("tiny", "bestfit", "7")
    assert (row["0"], row["30"], row["110"], row["130"]) == ("", "30.0", "50.0", "70.0")
    assert "6 arrivals, 2 did not fit" in result.stderr


def test_json_tells_the_moves_of_consolidation(app: typer.Typer, data: Path) -> None:
    result = CliRunner().invoke(app, arguments(data, "--policy", "bestfit", "--consolidate", "--format", "json"))
    (row,) = json.loads(result.stdout)
    assert (row["moves"], row["130"], row["0"]) == (1, 100.0, None)


@pytest.mark.parametrize("policy", [policy.value for policy in simulate.FragmentationPolicy])
def test_every_policy_and_metric_prints_a_table(app: typer.Typer, data: Path, policy: str) -> None:
    result = CliRunner().invoke(app, arguments(data, "--policy", policy, "--metric", "frag_ratio"))
    assert result.exit_code == 0, result.output
    header, *rows = result.stdout.splitlines()[1:]
    assert header.split() == ["workload", "policy", "seed", *(str(column) for column in range(0, 131, 10))]
    assert len(rows) == 1


@pytest.mark.parametrize("text", ["", "x", "5-", "9-7", "42,,43", "²", "9" * 5000])
def test_seeds_that_are_none_are_refused(app: typer.Typer, data: Path, text: str) -> None:
    found = CliRunner().invoke(app, [*arguments(data)[:-1], text])
    assert isinstance(found.exception, LedgerError)
    assert "42-51 or 42,44 fits" in str(found.exception)


@pytest.mark.parametrize("text", ["0-999999999999999999", "0-1000", "0-999,0", "0-500,0-500"])
def test_more_seeds_than_anybody_runs_are_one_line_and_take_no_memory(text: str) -> None:
    with pytest.raises(LedgerError, match=r"more than 1,000 seeds\. Choose fewer, like 42-51"):
        simulate.seeds_of(text)
    assert len(simulate.seeds_of("0-999")) == 1000


def test_seeds_may_be_a_list_with_ranges() -> None:
    assert simulate.seeds_of("42-44, 50,43") == [42, 43, 44, 50]


def test_a_folder_without_the_data_says_what_is_missing(app: typer.Typer, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, arguments(tmp_path))
    assert isinstance(found.exception, LedgerError)
    assert "openb_pod_list_tiny.csv: no such file" in str(found.exception)


def waits_its_turn(store: Store) -> None:
    """Two H100s of one node, and four jobs of both for an hour each that come at once; one's submission is unknown."""
    devices = ", ".join(f"('2026-10-01', 'c', 'n', '{name}', 'NVIDIA', 'H100', 1, 'p', 'available')" for name in "ab")
    columns = "ts, cluster, node, device_id, vendor, model, units, pool, state"
    store.command(f"INSERT INTO devices ({columns}) VALUES {devices}")
    rows = []
    for number in range(4):
        end = "preempted" if number == 3 else "finished"
        start = f"2026-10-01 {2 + number:02}:00:00"
        rows += [f"('{start}', 'c', '{number}', 'w{number}', 'started', 't', 'q', 2, 'n', '{name}')" for name in "ab"]
        rows.append(f"('2026-10-01 {3 + number:02}:00:00', 'c', '{number}', 'w{number}', '{end}', 't', 'q', 2, '', '')")
        if number:
            rows.append(f"('2026-10-01 02:00:00', 'c', '{number}', 'w{number}', 'submitted', 't', 'q', 2, '', '')")
    columns = "ts, cluster, allocation_id, workload_id, event, tenant, queue, gpus, node, device_id"
    store.command(f"INSERT INTO events ({columns}) VALUES {', '.join(rows)}")
    at = datetime(2026, 10, 2, tzinfo=UTC)
    card = {"currency": "EUR", "rates": [{"sku": "h", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}]}
    apply_rate_card(store, parse_rate_card(card, "card"), "test", "", at)
    close(store, until=at, now=at)


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("simulate") / "store"
    with fresh_store(folder, waits_its_turn):
        pass
    return f"chdb://{folder}"


def asked(books: str, *more: str) -> list[str]:
    return ["simulate", "capacity", "--store", books, "--period", "2026-10-01", *more]


@pytest.mark.usefixtures("engine_stays")
def test_other_gpus_are_compared_with_what_was_and_with_the_simulator(app: typer.Typer, books: str) -> None:
    """Three of four jobs wait one, two and three hours for two GPUs each; with two more, two wait an hour."""
    found = CliRunner().invoke(app, asked(books, "--gpus", "2", "--format", "json"))
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    for name, gpus, hours, cost in (
        ("as_it_was", 2, 12.0, "2922.00"), ("simulated", 2, 12.0, "2922.00"), ("changed", 4, 4.0, "5844.00"),
    ):  # fmt: skip
        outcome = answer[name]
        assert (outcome["gpus"], outcome["jobs"], outcome["waited_gpu_hours"]) == (gpus, 3, hours), name
        assert outcome["month_cost"] == cost
    assert (answer["as_it_was"]["p50"], answer["as_it_was"]["p95"]) == (7200.0, 10800.0)
    assert answer["as_it_was"]["utilization"] == pytest.approx(4 / 24)
    assert "assumed: 1 jobs, nobody reported when they were submitted" in found.stderr
    assert "assumed: 1 jobs, were preempted, which is not simulated" in found.stderr
    table = CliRunner().invoke(app, asked(books, "--gpus", "2")).stdout.splitlines()
    assert table[0].split() == ["measure", "as", "it", "was", "simulated", "+2", "GPUs"]
    assert next(line for line in table if line.startswith("GPU-hours")).split()[2:] == ["12.0", "12.0", "4.0"]


@pytest.mark.usefixtures("engine_stays")
def test_each_model_has_a_row_and_the_fewest_gpus_are_found(app: typer.Typer, books: str) -> None:
    (row,) = csv.DictReader(io.StringIO(CliRunner().invoke(app, asked(books, "--format", "csv")).stdout))
    assert (row["model"], row["gpus"], row["jobs"], row["waited_gpu_hours"]) == ("H100", "2", "3", "12.0")
    found = CliRunner().invoke(app, asked(books, "--wait-bound", "3600", "--quantile", "1", "--format", "csv"))
    tried = {row["gpus"]: row for row in csv.DictReader(io.StringIO(found.stdout))}
    assert {gpus: (row["wait_seconds"], row["answer"]) for gpus, row in tried.items()} == {
        "2": ("10800.0", "False"), "4": ("3600.0", "True"),
    }  # fmt: skip
    assert tried["4"]["month_cost"] == "5844.00"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("trace.csv", "--gpus", "2"), "is for the books"),
        (("trace.csv",), "--wait-bound: is missing"),
        (("--config", "x.yaml"), "is for traces"),
        (("--model", "H200"), "no such GPUs in the period"),
        (("--gpus", "-2"), "leaves none"),
    ],
)
@pytest.mark.usefixtures("engine_stays")
def test_what_cannot_be_asked_says_why(app: typer.Typer, books: str, more: tuple[str, ...], said: str) -> None:
    words = ["simulate", "capacity", *more] if more[0] == "trace.csv" else asked(books, *more)
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, LedgerError)
    assert said in str(found.exception)


def test_a_job_larger_than_the_nodes_of_the_configuration_is_a_gang(app: typer.Typer, tmp_path: Path) -> None:
    trace, site = tmp_path / "jobs.csv", tmp_path / "site.yaml"
    trace.write_text("job_id,submitted_at,run_seconds,gpus\na,0,60,16\n")
    site.write_text("pools: [{name: p, model: V100, nodes: 2, devices: 8}]\n")
    found = CliRunner().invoke(app, ["simulate", str(trace), "--config", str(site), "--format", "json"])
    assert found.exit_code == 0, found.output
    (run,) = json.loads(found.stdout)["runs"]
    assert (run["measures"]["finished"], run["measures"]["never_started"]) == (1, 0)


def test_costs_say_their_currency_and_which_models_have_no_price(app: typer.Typer, tmp_path: Path) -> None:
    trace, card = tmp_path / "jobs.csv", tmp_path / "rates.yaml"
    trace.write_text("job_id,submitted_at,run_seconds,gpus\na,0,3600,8\n")
    rate = "{sku: a, match: {model: A100}, price_per_gpu_hour: '2', effective_from: 2026-01-01}"
    card.write_text(f"currency: EUR\nrates: [{rate}]\n")
    for model, cost, notes in (("A100", "16.00", 1), ("L4", None, 2)):
        asked = ["simulate", str(trace), "--machines", f"1x8:{model}", "--rates", str(card), "--format", "json"]
        found = CliRunner().invoke(app, [*asked, "--price-at", "2026-10-02"])
        assert found.exit_code == 0, found.output
        document = json.loads(found.stdout)
        costs = [note for note in document["notes"] if note.startswith("costs: ")]
        assert costs[0] == "costs: in EUR, at list prices of 2026-10-02 00:00Z"
        assert costs[1:] == ["costs: unknown of who holds L4, which rates.yaml has no price for"][: notes - 1]
        measured = document["runs"][0]["measures"]["cost"]
        assert measured is None if cost is None else float(measured) == float(cost)
    refused = CliRunner().invoke(app, [*asked, "--price-at", "nonsense"])
    assert isinstance(refused.exception, LedgerError), refused.exception  # it was a traceback
