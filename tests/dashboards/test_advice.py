"""What could be held cheaper, on a tenant's page: its own, with links, for whoever may see it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from access.settings import AccessSettings
from dashboards import advice
from dashboards.filters import filters_of
from dashboards.format import money_column
from dashboards.languages import language
from gpuledger.client import Client
from tests.billing.small_fleet import L40S, Job, run
from tests.dashboards.site import serving
from tests.stores import fresh_store
from warehouse.store import Store

MONTH = "?period=2026-10"
EN = language("en")


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """48 hours: an idle device of physics' qcd, two of its replicas that fit on one, one idle of chem, one busy."""
    words = {"memory": 15, "model": L40S}
    jobs = [
        Job("idle", ("GPU-0",), use=0.0, **words),
        Job("vllm-0", ("GPU-1",), use=0.35, project="serve", **words),
        Job("vllm-1", ("GPU-2",), use=0.35, project="serve", **words),
        Job("theirs", ("GPU-3",), use=0.0, tenant="chem", **words),
        Job("busy", ("GPU-4",), use=0.9, tenant="bio", **words),
    ]
    with fresh_store(tmp_path_factory.mktemp("advice") / "store") as store:
        run(store, jobs, hours=48)
        yield store


def reported(store: Store, search: str) -> str:
    return str(advice.of_tenant(store, filters_of(store, search), EN))


def test_a_tenants_recommendations_are_summed_and_lead_to_their_workloads(books: Store) -> None:
    text = reported(books, f"{MONTH}&tenant=physics")
    assert "2 recommendations, €96.00 per month in total" in text
    assert "/workloads?period=2026-10&tenant=physics&workload=idle" in text
    assert "/workloads?period=2026-10&tenant=physics&workload=vllm-0" in text and "vllm-0 +1" in text
    assert "idle for up to 48 consecutive hours, with at most 15.0 GiB of memory in use" in text
    assert "theirs" not in text
    assert r"1\xa0Oct,\xa000:00 – 3\xa0Oct,\xa000:00" in text, "no line ends within a date"
    # Of the replicas' 65 % of idleness one GPU's 48 hours are covered.
    assert (
        "Recommended savings: €96.00 per month. Idle time cost €110 in the period: the recommendations cover €96; "
        "not covered: €14 alongside usage, too little for a recommendation." in text
    )
    text = reported(books, f"{MONTH}&tenant=physics&project=serve")
    assert "1 recommendation, €48.00 per month in total" in text
    assert "workload=idle" not in text
    assert "Idle time cost" not in text
    assert "Nothing to recommend" in reported(books, f"{MONTH}&tenant=physics&project=none")


def test_a_tenant_gets_no_advice_about_another(books: Store) -> None:
    chem = Principal("c", frozenset({Role.tenant}), frozenset({"chem"}))
    with Stores(books).scoped_to(chem) as store:
        assert "Nothing to recommend" in reported(store, f"{MONTH}&tenant=physics")
        own = reported(store, f"{MONTH}&tenant=chem")
        stolen = str(advice.of_workload(store, filters_of(store, MONTH), EN, "idle"))
    assert "workload=theirs" in own and "workload=idle" not in own
    assert "Idle time cost €48.00 in the period; the recommendations cover all of it." in own
    assert "Nothing to recommend" in stolen


def test_idle_time_that_nothing_can_save_is_no_use(books: Store) -> None:
    """As found: "it used what it was allocated" stood above what its idle time cost."""
    text = str(advice.of_workload(books, filters_of(books, MONTH), EN, "busy"))
    assert "the reasons are below" in text and "it used what it was allocated" not in text
    assert "not covered by a recommendation: " in text and "Recommended savings" not in text
    assert "; idle time at the contracted price." in text, "above it the page has it at list price"


def test_a_workloads_advice_is_that_of_its_tenants_table(books: Store) -> None:
    of_workload = str(advice.of_workload(books, filters_of(books, MONTH), EN, "vllm-1"))
    assert "Use fewer GPUs" in of_workload and "saves €48.00 per month" in of_workload
    assert "'saves': 48.0" in reported(books, f"{MONTH}&tenant=physics&project=serve")


def test_the_waste_is_told_in_chinese_too(books: Store) -> None:
    text = str(advice.of_tenant(books, filters_of(books, f"{MONTH}&tenant=physics"), language("zh")))
    assert "本期闲置时间成本 €110：其中 €96 已被建议覆盖；未覆盖：€14 与使用并存，不足以提出建议。" in text


def test_between_chinese_sentences_there_is_no_space() -> None:
    whole = SimpleNamespace(
        not_covered={}, idle_cost=Decimal(2), covered=Decimal(2), unpriced_gpu_hours=0, unmetered_gpu_hours=3,
        unmetered_cost=Decimal(1), unpriced_unmetered_gpu_hours=0,
    )  # fmt: skip
    report: Any = SimpleNamespace(
        waste=SimpleNamespace(total=whole), currency="EUR", monthly_amount=Decimal(2), recommendations=[1]
    )
    said = {code: advice.waste_summary(report, language(code), money_column) for code in ("en", "zh")}
    assert ". Unmetered" in said["en"] and "。未计量" in said["zh"]


def test_amounts_of_idle_time_side_by_side_are_all_with_cents_or_none() -> None:
    """As found: "$4,559 alongside usage; $266 from shares; $5.80 from workloads with too little telemetry"."""
    whole = SimpleNamespace(
        not_covered={"in_use": Decimal("4559.40"), "not_judged": Decimal("5.80")}, idle_cost=Decimal("4600.20"),
        covered=Decimal("35.00"), unpriced_gpu_hours=0, unmetered_gpu_hours=0,
    )  # fmt: skip
    report: Any = SimpleNamespace(
        waste=SimpleNamespace(total=whole), currency="USD", monthly_amount=Decimal("11.93"), recommendations=[1]
    )
    said = advice.waste_summary(report, EN, money_column)
    assert "savings: $11.93 per month" in said
    assert "Idle time cost $4,600" in said and "cover $35;" in said and "$4,559 along" in said and "$6 from" in said


def test_the_api_tells_of_one_workload_or_tenant_the_same(books: Store) -> None:
    with serving(books, AccessSettings()) as url, Client(url) as client:
        assert len(client.savings("2026-10").recommendations) == 3
        (together,) = client.savings("2026-10", workload="vllm-1").recommendations
        assert (together.kind, together.workloads) == ("fewer_gpus", ["vllm-0", "vllm-1"])
        assert {one.tenant for one in client.savings("2026-10", tenant="chem").recommendations} == {"chem"}
        assert client.savings("2026-10", tenant="chem", workload="vllm-1").recommendations == []
        waste = client.savings("2026-10", workload="vllm-1").waste
        assert waste and [(one.reason, str(one.amount)) for one in waste.not_covered] == [("in_use", "7.20")]
        assert (str(waste.idle_cost), str(waste.covered), waste.unallocated_cost) == ("31.20", "24.00", None)
        whole = client.savings("2026-10")
        assert whole.waste and str(whole.waste.unallocated_cost) == "0.00"
        assert whole.summary.startswith(
            "Advised: 144.00 EUR a month. Idle time cost 163.20 in the period: 144.00 of it"
        )
