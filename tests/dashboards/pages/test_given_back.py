"""The card of what idle policies gave back, on an invoice's page."""

from __future__ import annotations

from typing import Any

import pytest

from billing.documents import given_back as printed
from billing.invoicing.documents import Invoice
from billing.invoicing.idle_reclaims import ACTS
from dashboards.filters import filters_of
from dashboards.languages import NAMES, language
from dashboards.pages.invoices.given_back import given_back_card
from warehouse.store import Store

SUMS = {"gpu_hours": "551.000000000", "unpriced_gpu_hours": "1.500000000", "cost": "1708.100000000"}
RECLAIM = {
    "at": "2026-10-20T12:30:00.000Z", "act": "suspended", "by": "policy", "cluster": "c", "workload": "note",
    "evidence": "idle for 2h, as measured at 2026-10-20T12:28:00.000Z", "allocation": "note", "project": "p",
    "gpus": "2.000000000", "until": "2026-11-01T00:00:00.000Z", "until_because": "month_end", **SUMS,
}  # fmt: skip


def invoice(section: dict[str, Any] | None) -> Invoice:
    found = {} if section is None else {"idle_reclaims": section}
    return Invoice({"tenant": "phys", "currency": "EUR", **found})


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("en", ("not included in any amount", "suspended", "the end of the month: at most",
                "1.50 of these GPU-hours have no price", "551.00 of these GPU-hours, at 1,708.10 EUR")),
        ("zh", ("不计入任何金额", "已挂起", "月末：至多", "的测量，已闲置 2h",
                "其中 551.00 GPU 小时（成本 1,708.10 EUR）是上限")),
    ],
)  # fmt: skip
def test_a_card_says_what_was_given_back_and_what_of_it_is_an_upper_bound(
    shared_store: Store, code: str, texts: tuple[str, ...]
) -> None:
    filters, words = filters_of(shared_store, ""), language(code)
    section = {**SUMS, "at_most": SUMS, "reclaims": [RECLAIM]}
    shown = str(given_back_card(invoice(section), filters, words)).replace("\\xa0", " ").replace("\\u2060", "")
    for text in texts:
        assert text in shown
    known = {**SUMS, "unpriced_gpu_hours": "0.000000000", "at_most": None, "reclaims": [RECLAIM]}
    assert words("invoices.given_back_at_most", hours="551.00", cost="1,708.10 EUR") not in str(
        given_back_card(invoice(known), filters, words)
    )
    assert given_back_card(invoice(None), filters, words) is None


def test_a_job_of_the_operator_links_to_a_pod_of_it_that_was_taken(shared_store: Store) -> None:
    filters, words = filters_of(shared_store, ""), language("en")
    of_pods = RECLAIM | {"workload": "ml/train", "pods": ["0a1b", "2c3d"]}
    for reclaim, linked in ((RECLAIM, "workload=note"), (of_pods, "workload=0a1b")):
        shown = str(given_back_card(invoice({**SUMS, "at_most": None, "reclaims": [reclaim]}), filters, words))
        assert linked in shown
        assert str(reclaim["workload"]) in shown


def test_every_act_and_end_has_words_in_each_language() -> None:
    for code in NAMES:
        words = language(code).words
        for act in ACTS.values():
            assert f"invoices.act_{act}" in words
        for end in printed.ENDS:
            assert f"invoices.end_{end}" in words
