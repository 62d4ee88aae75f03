"""A site that pushes and does nothing else: recorded pages of AMD's exporter and a scheduler's events make inventory,
books and an invoice."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collectors.exporters.exposition import parse
from gpuledger.cli import build
from tests.billing.facts import job, put
from tests.collectors.exporters.test_site import RATES, SITES, START
from tests.collectors.receivers.pushing import Given, receiving, snappy, write_v1
from tests.ingest.receiving import TOKEN, tokens_file
from tests.stores import fresh_store

MAY = "records: [samples, metrics, findings, devices], clusters: [amd], nodes: all, back: all"


@pytest.mark.usefixtures("engine_stays")
def test_a_site_that_only_pushes_has_an_inventory_balanced_books_and_an_invoice(
    recorded: Callable[[str], str],
    tmp_path: Path,
) -> None:
    names, _, model, count, units, held = SITES["amd"]
    pages = [parse(recorded(name) + "\n").series for name in names]
    instants = [START + timedelta(minutes=15 * n) for n in range(13)]
    store = fresh_store(tmp_path / "store")
    tokens = tokens_file(tmp_path, f"senders: [{{name: prometheus, token: {TOKEN}, {MAY}}}]\n")
    with receiving(store, tokens) as pushed:
        for some in (instants[:5], instants[5:]):  # between them the server is another
            series: list[Given] = [
                (
                    {"__name__": one.name, "job": "amd", "instance": f"10.0.0.{n}:5000", **one.labels},
                    [(round(at.timestamp() * 1000), float(one.value)) for at in some],
                )
                for n, page in enumerate(pages)
                for one in page
            ]
            assert pushed.write(snappy(write_v1(series))).status_code == 204
            pushed.assemble()
            pushed.assembler.forget()
    reported = store.rows("SELECT * FROM devices")
    assert len({row["device_id"] for row in reported}) == count and {row["state"] for row in reported} == {"available"}
    assert all(model in row["model"] and row["node"] and row["cluster"] == "amd" for row in reported)
    first = [row for row in reported if row["ts"] == START]
    assert len(first) == count and sum(row["units"] for row in first) == units
    put(
        store,
        "events",
        job("train", "lab", held, "2026-10-05T08:30:00", "2026-10-05T10:00:00", cluster="amd", source="k8s"),
    )
    store.close()
    (tmp_path / "rates.yaml").write_text(RATES)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(build(), [*arguments, "--store", f"chdb://{tmp_path}/store"])
        assert result.exit_code == 0, f"{arguments}: {result.output}"
        return result.output if arguments[0] == "verify" else result.stdout

    run("rates", "apply", str(tmp_path / "rates.yaml"))
    run("close", "--until", "2026-10-05T11:00:00Z")
    assert "balance" in run("verify")
    hours = ("--period", "2026-10-05T08:00:00Z..2026-10-05T11:00:00Z")
    ledger = json.loads(run("ledger", *hours, "--by", "tenant", "--format", "json"))
    assert {row["tenant"]: float(row["allocated_gpu_hours"]) for row in ledger["rows"]} == {"lab": 1.5}
    assert float(ledger["capacity"]["gpu_hours"]) == 3 * count
    assert "3.75" in run("invoice", "draft", "--period", "2026-10", "--tenant", "lab")
