"""Of a month in which the inventory begins and ends no hour is said to be open, if all of it is closed."""

from __future__ import annotations

import csv
from pathlib import Path

from dashboards import parts
from dashboards.filters import filters_of
from dashboards.languages import language
from dashboards.pages.overview import quality
from tests.gpuledger.running import run
from warehouse.store import open_store

EN = language("en")
TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"


def test_hours_without_a_device_are_closed_hours(tmp_path: Path) -> None:
    """As found: `close` went to the end of the month, the month was invoiced, and every page and command said that only
    174 of its 720 hours were closed."""
    url = f"chdb://{tmp_path}/store"
    with (TUTORIAL / "devices.csv").open() as file:
        devices = list(csv.DictReader(file))
    removed = [{**one, "ts": "2026-09-08T06:00:00Z", "state": "removed"} for one in devices]
    with (tmp_path / "devices.csv").open("w") as file:
        writer = csv.DictWriter(file, devices[0])
        writer.writeheader()
        writer.writerows([*devices, *removed])
    run("ingest devices", str(tmp_path / "devices.csv"), "--store", url)

    run("close --until 2026-09-20T00:00Z --store", url)
    assert "only 174 of 720 hours are closed" in run("ledger --period 2026-09 --store", url).stderr
    with open_store(url) as store:
        assert "174 of 720 hours closed" in str(parts.titles(filters_of(store, "?period=2026-09"), EN, "title"))

    run("close --until 2026-10-01T00:00Z --store", url)
    assert run("ledger --period 2026-09 --store", url).stderr.splitlines()[0] == (
        "the inventory has no device in 546 of 720 hours: the figures are of the other 174, all of which are closed"
    )
    said = run("ledger --period 2026-09-20..2026-09-22 --store", url).stderr
    assert said.startswith("the inventory has no device from 2026-09-20 00:00Z to 2026-09-22 00:00Z")
    with open_store(url) as store:
        filters = filters_of(store, "?period=2026-09")
        titles = str(parts.titles(filters, EN, "title"))
        assert "devices in 174 of 720 hours" in titles and "hours closed" not in titles
        assert "The period is closed" in str(quality._closed(filters, EN))
