"""Files that people state, over the API: what another would change is told before it is made, and who made it after."""

from __future__ import annotations

from email.message import Message

import pytest

from api.downloads import attachment
from billing.documents.invoice_files import slug
from gpuledger.client import ApiError, Client
from gpuledger.documents import PREFIX
from tests.dashboards.site import BUDGETS, CARD, Site

B200 = CARD + '  - {sku: b200, match: {model: B200}, price_per_gpu_hour: "9.00"}\n'
GRID = 'intensity: [{region: DE, grams_per_kwh: "380", source: "a table"}]'
PARTIES = 'buyers: [{tenant: vision, name: "Vision GmbH", purchase_order: "4711"}]'
WAITS = 'objectives: [{name: waits, kind: queue_wait, target: "0.9", within: 30m}]'


def test_a_card_is_compared_and_then_applied_under_a_name_with_a_reason(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["finance"]) as client:
        before = client.rate_card().version
        same = client.check_rate_card(CARD)
        assert (same.version, same.new, same.diff) == (before, False, [])
        found = client.check_rate_card(B200)
        assert (found.before, found.new) == (before, True)
        assert found.changes == ["added b200 (model B200): 9.00"]
        assert "+  sku: b200" in found.diff
        assert client.rate_card().version == before
        assert client.apply_rate_card(B200, "B200 come in").new
        assert client.check_rate_card(B200).new is False
        noted = next(client.audit("rates.apply"))
        assert (noted.actor, noted.reason, noted.object) == ("finance", "B200 come in", found.version)
        client.apply_rate_card(CARD, "back")


def test_what_would_change_an_issued_invoice_is_refused_before_it_is_applied(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["finance"]) as client:
        for ask in (client.check_rate_card, client.apply_rate_card):
            with pytest.raises(ApiError, match="GL-2026-00001 was computed from it") as refused:
                ask(CARD.replace('"1.50"', '"1.40"'))
            assert refused.value.status == 409
            assert refused.value.next_step
        with pytest.raises(ApiError, match="invoice GL-2026-00001 was computed from it"):
            client.check_tenants("rules: [{match: {tenant: speech}, tenant: sound}]")
        with pytest.raises(ApiError, match="the rate card is in EUR"):
            client.check_budgets(BUDGETS.replace("EUR", "USD"))


def test_budgets_objectives_and_energy_settings_go_the_same_way(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["finance"]) as client:
        more = BUDGETS.replace('"100.00"', '"110.00"')
        assert [line for line in client.check_budgets(more).diff if line[0] in "+-"] == [
            "-- amount: '100.00'", "+- amount: '110.00'",
        ]  # fmt: skip
        assert client.check_objectives(WAITS).new
        assert client.apply_objectives(WAITS, "promised").new
        assert not client.apply_objectives(WAITS).new
        assert client.check_energy_settings(GRID).new
        assert client.apply_energy_settings(GRID, "from the operator").new
        assert not client.apply_energy_settings(GRID).new
        assert client.check_parties(PARTIES).new
        assert client.apply_parties(PARTIES, "we moved").new
        assert not client.apply_parties(PARTIES).new
        done = {one.action for one in client.audit() if one.actor == "finance"}
        assert done >= {"slo.apply", "energy.apply", "parties.apply"}


@pytest.mark.parametrize(
    "path", ["/rates/cards", "/tenants/mapping", "/budgets", "/objectives", "/energy/settings", "/parties"]
)
def test_a_file_of_no_use_is_one_line_that_says_where(served_site: Site, path: str) -> None:
    with served_site.client("admin") as client:
        for ending in ("", "/check"):
            answer = client.post(f"{PREFIX}{path}{ending}", json={"yaml": "a: [", "reason": "x"})
            reported = answer.json()
            assert (answer.status_code, reported["next_step"]) == (409, "Check indentation and quotes"), reported
            assert "not YAML" in reported["detail"]
            assert "\n" not in reported["detail"]


@pytest.mark.parametrize("tenant", ["vision", "研发一部", "Zürich", 'a "b"\r\nX: c'])
def test_a_document_of_any_tenant_has_a_name_that_a_header_can_say(tenant: str) -> None:
    """As found: for a tenant whose name is not Latin-1 the server answered 500 in place of each file."""
    said = attachment(f"GL-2026-00007-{slug(tenant)}.pdf")
    message = Message()
    message["Content-Disposition"] = said.encode("latin-1").decode()
    assert message.get_filename() == f"GL-2026-00007-{slug(tenant)}.pdf"
