"""docs/rates.md: every card that it shows is applied to a store, and the invoices come to what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.close import close
from billing.invoicing.invoices import draft_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from billing.rates.rate_card import RateCard
from collectors.kubernetes.resources import NodeFacts, ShareBy, parts, requests
from tests.billing.facts import devices, job, put
from tests.billing.hand_ledger import at
from tests.collectors.kubernetes.make import pod
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store
from warehouse.yaml_text import parse_yaml

PAGE = (Path(__file__).parents[2] / "docs" / "rates.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```\n\nIt comes to: (.*?)\.\n", PAGE, re.DOTALL)
START = at("2026-09-01 00:00")
NOW = at("2026-10-20 00:00")
BASE: dict[str, Any] = parse_yaml(EXAMPLES[0][0])


@dataclass
class September:
    """What the page tells of September, and the prices with which it was closed last: only they are in the ledger."""

    store: Store
    closed_with: Any = None


def fill(store: Store) -> None:
    there = [
        *devices("2026-09-01 00:00", "gpu-0", "gpu-1", "gpu-2"),
        *devices("2026-09-01 00:00", "gpu-3", units=2),
    ]
    gone = [{**one, "ts": at("2026-09-11 00:00"), "state": "removed"} for one in there]
    held = [
        *job("c", "chem", "gpu-0", "2026-09-01 00:00", "2026-09-09 08:00"),
        *job("p", "phys", "gpu-1", "2026-09-01 00:00", "2026-09-03 02:00"),
        *job("q", "phys", "gpu-2", "2026-09-10 00:00", "2026-09-10 00:00:20"),
        *job("b", "bio", "gpu-3", "2026-09-01 00:00", "2026-09-05 04:00", units=1),
    ]
    used = [
        {"ts": START + timedelta(hours=n + 1), "interval_seconds": 3600.0, "device_id": "gpu-0", "state": "ok",
         "utilization": 0.5, "power_watts": 500.0, "memory_used_bytes": 40 << 30, "memory_total_bytes": 80 << 30}
        for n in range(200)
    ]  # fmt: skip
    for record, rows in (
        ("devices", [{**one, "pool": "train"} for one in (*there, *gone)]),
        ("events", held),
        ("samples", used),
    ):
        put(store, record, [{**one, "cluster": "us-east"} for one in rows])


@pytest.fixture(scope="module")
def september(tmp_path_factory: pytest.TempPathFactory) -> Iterator[September]:
    with fresh_store(tmp_path_factory.mktemp("rates"), fill) as store:
        yield September(store)


def test_every_example_of_the_page_has_its_figures() -> None:
    assert PAGE.count("```yaml") == len(EXAMPLES) > 10


def test_the_page_shows_every_key_of_a_rate_card() -> None:
    shown = {key for text, _ in EXAMPLES for key in parse_yaml(text)}
    assert shown == set(RateCard.model_fields)


def test_a_share_is_measured_as_the_page_says() -> None:
    said = "20 % of the cores and half of the memory are 0.5 of a GPU, or 0.2 by cores"
    assert said.replace(" ", "") in re.sub(r"\s", "", PAGE)
    asked = {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 20, "nvidia.com/gpumem-percentage": 50}
    ways: tuple[ShareBy, ...] = ("larger", "cores", "memory")
    found = [parts(requests(pod("u", resources=asked), (), by), NodeFacts()) for by in ways]
    assert [part.gpus for (part,) in found] == [0.5, 0.2, 0.5]


@seldom(6, "the invoices come to what the page")
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_invoices_come_to_what_the_page_says(september: September, number: int) -> None:
    text, figures = EXAMPLES[number]
    example = parse_yaml(text)
    card = parse_rate_card(example if "rates" in example else BASE | example)
    apply_rate_card(september.store, card, "me", "", NOW)
    if card.rates != september.closed_with:
        close(september.store, at("2026-10-02 00:00"), NOW)
        september.closed_with = card.rates
    found = {}
    for one in draft_all(september.store, parse_month("2026-09", "UTC")):
        payable = one.document["payable"]
        found[one.tenant] = f"{payable['amount']} {payable['currency']}" if payable else f"{Decimal(one.amount)}"
    assert ", ".join(f"{tenant} {amount}" for tenant, amount in sorted(found.items())) == figures
