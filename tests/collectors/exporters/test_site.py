"""Sites with exporters and nothing else: their pages and a scheduler's events make inventory, books and invoices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.memory import Memory
from collectors.exporters.rows import rows
from collectors.exporters.scrape import ExporterCollector
from collectors.readings import Collected
from gpuledger.cli import build
from tests.billing.facts import job, put
from tests.collectors.exporters.serving import Exporter
from tests.stores import fresh_store

START = datetime(2026, 10, 5, 8, tzinfo=UTC)
RATES = """
currency: EUR
timezone: UTC
rates:
  - {sku: any, match: {}, price_per_gpu_hour: "2.50", effective_from: 2026-01-01T00:00:00Z}
"""
# site -> recorded pages, the node where they do not tell it, part of the model's name, devices, units, one that is held
SITES = {
    "amd": (
        [
            "amd-device-metrics-exporter/aiperf_dme_two_gpu.prom",
            "amd-device-metrics-exporter/kaiwo_mi300x_gfx_activity_lines.prom",
        ],
        "",
        "MI300X",
        5,
        12,  # one of them is in CPX mode, which makes it eight
        "SN-0",
    ),
    "ascend": (["ascend-npu-exporter/prometheus_metrics.prom"], "npu-1", "Ascend", 8, 8, "npu-1/npu3"),
}


def scraped(exporter: Exporter, site: str, pages: list[str], node: str) -> Collected:
    """Three hours of a site, asked every quarter of an hour over HTTP; the exporters' own timestamps go along."""
    collected = Collected()
    now = START
    exporter.route = lambda path: re.sub(
        r" \d{10}$", f" {now.timestamp() * 1000:.0f}", pages[int(path.strip("/"))], flags=re.MULTILINE
    ).encode()
    collector = ExporterCollector(
        [f"{exporter.url}/{number}" for number in range(len(pages))],
        node=node,
        cluster=site,
        period_seconds=900,
        memory=Memory(inventory=ExporterInventory(site)),
    )
    for n in range(13):
        now = START + timedelta(minutes=15 * n)
        scrape = collector.collect(now)
        assert all(scrape.up.values()), scrape.collected.rows.get("findings")
        collected += scrape.collected
        collected += rows(scrape.observed, cluster=site)
    collector.close()
    return collected


@pytest.mark.usefixtures("engine_stays")
def test_sites_of_exporters_alone_have_an_inventory_balanced_books_and_invoices(
    recorded: Callable[[str], str], exporter: Exporter, tmp_path: Path
) -> None:
    at = f"chdb://{tmp_path}/store"
    store = fresh_store(tmp_path / "store")
    for site, (pages, node, model, count, units, held) in SITES.items():
        collected = scraped(exporter, site, [recorded(page) + "\n" for page in pages], node)
        reported = collected.rows["devices"]
        assert len(reported) == len({row["device_id"] for row in reported}) == count  # once each, not with every scrape
        assert {row["state"] for row in reported} == {"available"} and all(model in row["model"] for row in reported)
        assert all(row["node"] and row["ts"] == START for row in reported)
        assert sum(row["units"] for row in reported) == units
        put(store, "devices", reported)
        put(store, "samples", collected.rows["samples"])
        begin, end = "2026-10-05T08:30:00", "2026-10-05T10:00:00"
        put(store, "events", job("train", f"{site}-lab", held, begin, end, cluster=site, source="k8s"))
    store.close()
    (tmp_path / "rates.yaml").write_text(RATES)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(build(), [*arguments, "--store", at])
        assert result.exit_code == 0, f"{arguments}: {result.output}"
        return result.output if arguments[0] == "verify" else result.stdout

    run("rates", "apply", str(tmp_path / "rates.yaml"))
    run("close", "--until", "2026-10-05T11:00:00Z")
    assert "balance" in run("verify")
    hours = ("--period", "2026-10-05T08:00:00Z..2026-10-05T11:00:00Z")
    ledger = json.loads(run("ledger", *hours, "--by", "tenant", "--format", "json"))
    allocated = {row["tenant"]: float(row["allocated_gpu_hours"]) for row in ledger["rows"]}
    assert allocated == {"amd-lab": 1.5, "ascend-lab": 1.5}
    assert float(ledger["capacity"]["gpu_hours"]) == 3 * 13
    assert float(ledger["platform"]["unallocated_gpu_hours"]) == 3 * 13 - 3
    for tenant in allocated:
        assert "3.75" in run("invoice", "draft", "--period", "2026-10", "--tenant", tenant)
