"""The energy and carbon of a month on the page of invoices: 0.4 kW for 48 hours a device, by the books of the site."""

from __future__ import annotations

import pytest

from billing.energy.settings import apply_energy_settings, parse_energy_settings
from dashboards.data_version import AnswerCache, DataVersion
from dashboards.filters import filters_of
from dashboards.languages import language
from dashboards.pages.invoices import emissions as page
from dashboards.pages.invoices.emissions import emissions
from tests.dashboards.site import NOW
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")
GRID = {"intensity": [{"region": "x", "cluster": "*", "grams_per_kwh": "500", "pue": "1.5", "source": "made up"}]}


def shown(store: Store, search: str = "", month: str = "2026-10", memory: AnswerCache | None = None) -> str:
    filters = filters_of(store, search, DataVersion.of(store, None, memory))
    return str(emissions(store, filters, language("en"), month))


def test_energy_and_carbon_of_each_tenant_and_what_is_unknown(house: Store) -> None:
    memory = AnswerCache()
    before = shown(house, memory=memory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "energy_report", lambda *_: pytest.fail("it is cached"))
        assert shown(house, memory=memory) == before
    assert "vision" in before and "Td('19.2')" in before
    assert r"57.6\xa0kWh have no carbon intensity" in before and "Td('14.4')" not in before
    apply_energy_settings(house, parse_energy_settings(GRID), "test", "", NOW)
    after = shown(house, memory=memory)
    assert "Td('28.8')" in after and "Td('14.4')" in after, "with PUE, and half a kilogram a kWh"
    assert "Unallocated" in after and "no carbon intensity" not in after
    assert "Td('43.2')" in after, "all three devices"


def test_a_filter_leaves_its_tenants_alone(house: Store) -> None:
    found = shown(house, "?tenant=vision")
    assert "vision" in found and "speech" not in found and "Total" not in found


def test_a_month_without_books_says_so(house: Store) -> None:
    assert "No energy is known for this month." in shown(house, "", "2026-09")
