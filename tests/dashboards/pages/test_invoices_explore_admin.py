"""Invoices, SQL and administration: figures against SQL, who may see what, and each page in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest

from access.current import set_current
from access.opening import open_access
from access.people import Kind, Person
from access.principal import ANYBODY, ForbiddenError, Principal
from access.roles import Role
from access.scope import Stores
from access.tokens import Token, list_tokens
from alerts.slo.applied import apply_objectives
from alerts.slo.objectives import parse_objectives
from billing import audit
from billing.accounts.budget_file import Budget
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.invoicing.invoices import issued
from billing.invoicing.month_states import Month, MonthState
from billing.parties.applied import apply_parties
from billing.parties.details import parse_parties
from billing.periods import parse_month
from billing.refused import refused_in, unread_rows
from dashboards.filters import Address, Filters, filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import admin, explore, invoices
from dashboards.pages.admin import applied_files, in_force, people
from dashboards.pages.explore import answer
from dashboards.pages.invoices import document
from dashboards.pages.invoices.document import (
    _after,
    _credited,
    _headline,
    _in_its_place,
    _void_card,
    _voided_note,
)
from tests.billing.sample_documents import credit_note, every_kind
from tests.conftest import REPO
from tests.dashboards import site
from tests.dashboards.browser import MARKS, picture, tab, taken
from tests.draws import seldom
from warehouse.phrases import with_moments
from warehouse.store import Store, read_sql

ANALYST = Principal("ann", frozenset({Role.analyst}))
FINANCE = Principal("fin", frozenset({Role.finance}))
OPERATOR = Principal("op", frozenset({Role.operator}))
SPLIT = "SELECT tenant, sum(used_gpu_hours) AS hours FROM v_usage_hourly GROUP BY tenant ORDER BY tenant"
EN = language("en")
NOW = datetime(2026, 10, 20, tzinfo=UTC)
VISIONS = {"tenant": "vision"}
VISION = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))


class InJanuary(datetime):
    """Two months after the books."""

    @classmethod
    def now(cls, tz: Any = None) -> InJanuary:
        return cls(2027, 1, 15, tzinfo=tz)


def page(store: Store, who: Principal, path: str) -> str:
    """What a page shows to somebody, as text."""
    with open_access(store) as access:
        set_current(who, access)
        return _page(store, who, path)


def _page(store: Store, who: Principal, path: str) -> str:
    address, _, search = path.partition("?")
    with Stores(store).scoped_to(who) as own:
        return str(show(own, who, address, search).page)


@pytest.mark.parametrize(
    "asked",
    [
        "/invoices?number=GL-2026-00001&line=-1",
        "/alerts?silence=zzz",
        "/capacity?group=NaN",
        "/fleet?by=colour",
        "/?grain=week",
        "/administration?part=zzz",
    ],
)
def test_an_option_that_fits_nothing_is_said_to_be_ignored(house: Store, asked: str) -> None:
    """As found: the page was shown as if nothing had been asked for."""
    option = asked.replace("?", "&").split("&")[-1]
    assert f"{option}: nothing fits, ignored" in page(house, ANYBODY, asked)


def test_a_month_s_invoices_add_up_as_the_view_has_them(house: Store) -> None:
    text = page(house, ANYBODY, "/invoices?month=2026-10")
    reported = house.value("SELECT sum(amount) AS a FROM v_invoices WHERE month = '2026-10' AND status = 'issued'")
    assert reported > 0
    assert f"€{reported:,.2f}" in text
    assert "Issue October 2026" in text
    assert "POST /invoices" not in page(house, ANALYST, "/invoices?month=2026-10")


def test_who_may_issue_is_told_what_the_month_s_invoices_lack(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: the commands said it, the page with the button did not."""
    october = parse_month("2026-10", "UTC")
    claims, rows = refused_in(house, october), unread_rows(house, october)
    text = page(house, FINANCE, "/invoices?month=2026-10")
    assert ("on no invoice" in text) is bool(claims) and ("could not be read" in text) is bool(rows)
    for name, number in (("refused_in", 1), ("unread_rows", 1234)):
        monkeypatch.setattr(invoices, name, lambda store, month, number=number: number)
    told = ["1 claim of the month was refused", "1,234 rows that arrived since the month began could not be read"]
    for who, may in ((FINANCE, True), (ANALYST, False), (VISION, False)):
        assert [one in page(house, who, "/invoices?month=2026-10") for one in told] == [may, may], who


def test_a_month_without_an_invoice_has_the_sum_of_its_drafts(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: a dash beside drafts of 94,064 dollars. The browser writes it; what it writes to is there once."""
    monkeypatch.setattr(invoices, "datetime", InJanuary)
    for month, is_said in (("2026-10", False), ("2026-11", True)):
        text = page(house, ANYBODY, f"/invoices?month={month}")
        assert text.count("id='invoices-so-far'") == text.count("id='invoices-drafted'") == 1
        assert ("drafts so far" in text) is is_said
        assert "choose the month for its drafts" in text, "of the others"


def test_a_month_that_goes_on_says_what_it_costs_so_far_while_another_is_chosen(house: Store) -> None:
    """As found: a dash, although its hours are in the books."""
    of_october, november = (Month(name, parse_month(name, "UTC"), MonthState.open, NOW, 0)
                            for name in ("2026-10", "2026-11"))  # fmt: skip
    for search, where in (("", ""), ("?tenant=vision&pool=no-such", " WHERE tenant = 'vision'")):
        costs = invoices._costs_so_far(house, [of_october, november], filters_of(house, search))
        cost = house.value(f"SELECT sum(billed_cost) AS cost FROM v_charges{where}")
        assert costs == {"2026-10": f"€{cost:,.2f}", "2026-11": "–"}, "no hour of November is closed"
    closed = replace(of_october, state=MonthState.closed)
    assert invoices._costs_so_far(house, [closed], filters_of(house, "")) == {}
    text = str(invoices._months_card([of_october, november], november, [], costs, filters_of(house, ""), EN, None))
    assert f"'{costs['2026-10']}'" in text and "usage so far, before discounts and tax" in text
    unpriced = {"currency": "", "cost": None, "unpriced": 2.0}
    assert invoices._so_far([unpriced]) == "–"
    assert invoices._so_far([unpriced, {"currency": "EUR", "cost": Decimal("1.005"), "unpriced": 0.0}]) == "≥ €1.00"


def test_hours_are_closed_from_the_page_by_those_who_may(house: Store) -> None:
    """As found: the first step of a month, to close it, was a command alone."""
    for who, may in ((ANYBODY, True), (OPERATOR, True), (FINANCE, False), (ANALYST, False), (VISION, False)):
        assert ("POST /close" in page(house, who, "/invoices")) is may, who
    text = page(house, OPERATOR, "/invoices").replace(r"\xa0", " ")
    assert re.search(
        r"Closed until \d+ \w+, \d\d:00; the last close with anything to do ran \d+ \w+, \d\d:\d\d\.", text
    )


def test_before_the_first_close_the_page_offers_it(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoices, "closed_period", lambda store: None)
    text = page(house, OPERATOR, "/invoices")
    assert "Nothing is closed yet" in text and "POST /close" in text


def test_the_page_opens_at_the_newest_month_with_closed_hours(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: two months after the tutorial's files it was an empty one, closing "until" a day that had passed."""

    monkeypatch.setattr(invoices, "datetime", InJanuary)
    assert "Invoices · October 2026" in page(house, ANYBODY, "/invoices")
    assert "its hours are closed until" in page(house, ANYBODY, "/invoices?month=2026-12")


def test_nothing_of_a_void_invoice_is_due(house: Store) -> None:
    one = next(one for one in issued(house) if not one.is_void)
    assert "void" not in str(_headline(one, [], "", language("en")))
    of_void = str(_headline(replace(one, document={**one.document, "status": "void"}), [], "", language("en")))
    assert "void" in of_void
    assert "€0.00" in of_void


def test_every_figure_of_a_document_has_a_second_line(house: Store) -> None:
    """As found: Tax, and a credit note's Due, had none beside figures that have."""
    taxed = next(one for one in issued(house) if not one.is_void)
    totals = {"net": "100.00", "tax": "19.00", "amount": "119.00", "prepaid": "0.00", "due": "119.00"}
    assert "19.0% of net" in str(_headline(replace(taxed, document={**taxed.document, "totals": totals}), [], "", EN))
    credit = {name: f"-{amount}" for name, amount in totals.items()}
    credited = {**taxed.document, "totals": credit, "parties": None}
    shown = str(_headline(replace(taxed, document=credited), [], "", EN))
    assert "19.0% of net" in shown and "in the tenant's favor" in shown


def test_the_list_costs_of_an_invoice_s_lines_add_up(house: Store) -> None:
    """As found: a dash below lines that all have one, as if it were unknown."""
    one = next(one for one in issued(house) if all(line.get("list_cost") for line in one.lines))
    total = float(sum(Decimal(line["list_cost"]) for line in one.lines))
    text = page(house, FINANCE, f"/invoices?number={one.number}")
    assert f"'list_cost': {total}" in text.partition("pinnedBottomRowData")[2][:400]


def test_what_is_due_says_what_credit_notes_leave_of_it() -> None:
    """As found: an invoice of $642.23 with a credit note of $12.50 was due with $642.23."""

    def document(due: str | None, is_void: bool = False) -> Any:
        return SimpleNamespace(currency="USD", is_void=is_void, totals={"due": due, "amount": due})

    notes = [document("-12.50"), document("-100.00", is_void=True), document("-0.01")]
    assert _after(document("642.23"), notes, language("en")) == "$629.72 after credit notes"
    assert _after(document("642.23"), notes[1:2], language("en")) == ""
    assert _after(document(None), notes, language("en")) == "", "unknown"


def test_a_credit_note_is_voided_as_one(house: Store) -> None:
    set_current(FINANCE)
    words, filters = language("en"), Filters(Address(), "UTC", [], None)
    for one, said, unsaid in (
        (every_kind(), "the month can be invoiced again", "the credit no longer counts"),
        (credit_note(), "the credit no longer counts", "the month can be invoiced again"),
    ):
        text = str(_void_card(one, None, filters, words))
        assert said in text and unsaid not in text
        assert f"Void {one.number}" in text and "This cannot be undone." in text


def test_a_void_invoice_says_when_by_whom_and_why_and_what_stands_in_its_place() -> None:
    """As found: the reason alone, and that only where a pointer rests on a chip."""
    set_current(FINANCE)
    words, filters = language("en"), Filters(Address(), "Europe/Berlin", [], None)
    one = every_kind()
    assert _voided_note(one, None, filters, words) is None
    void = {"at": "2026-11-05T13:00:00Z", "author": "olga", "reason": "wrong <b>tax</b>"}
    gone = replace(one, document={**one.document, "status": "void", "void": void})
    alone = str(_voided_note(gone, None, filters, words)).replace("\\xa0", " ")
    assert "Voided on 5 November 2026, 14:00 by olga: wrong <b>tax</b>" in alone and "in its place" not in alone
    other = replace(one, document={**one.document, "number": "MB-2026-00099"})
    assert _in_its_place(gone, [gone, credit_note(), other]) == other.number
    replaced = str(_voided_note(gone, other.number, filters, words))
    assert "in its place" in replaced and f"number={other.number}" in replaced
    assert _void_card(gone, other.number, filters, words) is None


def test_a_credit_note_says_that_it_is_one_and_of_which_invoice() -> None:
    """As found: its page had the look of an invoice of a negative amount."""
    words, filters = language("en"), Filters(Address(), "UTC", [], None)
    text = str(_credited(credit_note(), filters, words))
    assert "credit note on MB-2026-00012" in text and "number=MB-2026-00012" in text
    assert _credited(every_kind(), filters, words) is None


def test_a_line_is_explained_by_its_rule_and_allocations(house: Store) -> None:
    text = page(house, ANALYST, "/invoices?number=GL-2026-00001&line=1")
    assert r"GPU-\u2060hours × contracted unit price" in text
    assert '"price_per_gpu_hour": "1.50"' in text
    assert "w-speech" in text
    assert "/api/v1/invoices/GL-2026-00001/file?format=pdf" in text
    assert "Issue credit note" not in text
    assert "Issue credit note" in page(house, FINANCE, "/invoices?number=GL-2026-00001")
    by_hour = page(house, ANALYST, "/invoices?number=GL-2026-00001&line=1&by=hour")
    assert "2 Oct, 23:00" in by_hour and "/fleet?device=" in by_hour


@pytest.mark.parametrize("month", ["2031-05", "2026-13", "<b>"])
def test_another_month_than_the_books_have_is_not_answered_with_the_figures_of_one(house: Store, month: str) -> None:
    text = str(invoices.layout(house, filters_of(house, f"?month={month}"), language("en")))
    assert "No closed hours in this period" in text
    assert "Drafts" not in text
    assert "month=2026-1" in text, "a link to one that they have"


def test_an_explained_hour_has_its_device_s_short_name_and_no_name_twice(house: Store) -> None:
    """As found: a UUID on two lines, and the workload's name again as its allocation's, in every card."""
    filters = filters_of(house, "")
    row = {"workload": "w", "allocation": "w", "device": "GPU-c42e6401-5e7e-41f8-ac57-b4cc3b01389c",
           "from": site.NOW, "to": site.NOW, "hour": "2026-10-02T23:00:00"}  # fmt: skip
    shown = document._of_workload(row, filters)
    assert shown["device_text"] == "GPU-c42e6401" and "device=GPU-c42e6401-5e7e" in shown["of_device"]
    columns = document._workload_columns(True, language("en"))
    for rows, on_cards in (([row], False), ([row, {**row, "allocation": "a"}], True)):
        (one,) = (one for one in document._without_repeats(columns, rows) if one["field"] == "allocation")
        assert one.get("context", {}).get("cards", True) is on_cards


def test_a_tenant_sees_its_own_invoices_and_no_other_s_prices(house: Store) -> None:
    text = page(house, VISION, "/invoices?month=2026-10")
    assert "€96.00" in text
    assert "GL-2026-00002" in text
    assert "GL-2026-00001" not in text
    assert "you don't have access to it" in page(house, VISION, "/invoices?number=GL-2026-00001")
    assert "h100-speech" not in page(house, VISION, "/invoices?number=GL-2026-00002&line=1")


def test_an_answer_is_what_the_engine_says_and_no_more_than_a_table_shows(house: Store) -> None:
    sql = "SELECT tenant, sum(billed_cost) AS cost, [1] AS a FROM v_charges GROUP BY tenant ORDER BY tenant"
    found = answer.answer_of(house, ANALYST, sql)
    reported = house.rows("SELECT tenant, sum(billed_cost) AS cost FROM v_charges GROUP BY tenant ORDER BY tenant")
    assert [tuple(row) for row in found.rows] == [(row["tenant"], float(row["cost"]), "[1]") for row in reported]
    assert [(one.name, one.is_number) for one in found.columns] == [("tenant", False), ("cost", True), ("a", False)]
    many = answer.answer_of(house, ANALYST, "SELECT number FROM numbers(200000)")
    assert (len(many.rows), many.is_cut, found.is_cut) == (answer.MOST, True, False)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DROP TABLE audit", "reads only"),
        ("SELECT * FROM audit", "audit"),
        ("SELECT * FROM access_tokens", "access_tokens"),
        ("SELECT 1 FORMAT CSV", "shows tables, not FORMAT CSV"),
        ("SELECT nonsense", "nonsense"),
    ],
)
def test_a_statement_that_is_refused_says_why(house: Store, sql: str, why: str) -> None:
    set_current(ANALYST)
    text = str(explore.result(house, filters_of(house, "?" + urlencode({"sql": sql})), language("en")))
    assert "This statement was not run" in text
    assert why in text


def test_the_page_opens_with_a_question_answered(house: Store) -> None:
    """Before, with a statement that nobody had asked for, and no answer."""
    set_current(ANALYST)
    assert "'explore-asked'" in page(house, ANALYST, "/explore")
    assert "H2('Cost by tenant and month')" in str(explore.result(house, filters_of(house, ""), language("en")))
    text = str(explore.result(house, filters_of(house, ""), language("zh")))
    assert "explore-grid" in text and "vision" in text and "各租户每月成本" in text
    own = str(explore.result(house, filters_of(house, "?sql=SELECT+1+AS+one"), language("en")))
    assert "'Result'" in own and "Cost by tenant" not in own
    unknown = page(house, ANALYST, "/explore?saved=nothing-like-that")
    assert "There is no saved query named nothing-like-that" in unknown and "explore-asked" not in unknown


def test_the_chart_of_cost_is_of_cost(house: Store) -> None:
    """As found: it drew GPU-hours, under "Cost by tenant and month"."""
    found = answer.answer_of(house, ANALYST, explore.example("cost", "UTC"))
    drawn = answer.chart_of(found, language("en"))
    assert drawn is not None
    chart, charted = drawn
    assert charted == len(found.rows) and chart["layout"]["annotations"][0]["text"] == "cost"
    assert "vision" in {one["name"] for one in chart["data"]}


def test_a_series_without_a_name_is_called_as_its_cell_looks() -> None:
    columns = [answer.Column("month", "Date"), answer.Column("cost_center", "String"), answer.Column("cost", "Float64")]
    rows = [["2026-10-01", name, 1.0] for name in ("K-1", "", None)]
    drawn = answer.chart_of(answer.Answer(columns, rows, False, 1), language("en"))
    assert drawn is not None and [one["name"] for one in drawn[0]["data"]] == ["K-1", "(blank)"]
    assert "'(blank)'" in explore._column(1, "cost_center", False, language("en"))["valueFormatter"]["function"]


def test_a_chart_that_leaves_rows_out_says_so(house: Store) -> None:
    """As found: 20 workloads in the table, 8 of them in the chart, as if the others had no idle time."""
    set_current(ANALYST)
    ask = "SELECT 'vision' AS tenant, 'w' || toString(number) AS workload, number + 1 AS idle FROM numbers(%d)"
    for rows, said in ((20, True), (8, False)):
        filters = filters_of(house, "?" + urlencode({"sql": ask % rows}))
        text = str(explore.result(house, filters, language("en")))
        assert ("The chart has 8 of the 20 rows; the table has all." in text) == said
        assert ("The chart has" in text) == said


def test_sql_is_not_for_tenants(house: Store) -> None:
    assert "You don't have access to this page" in page(house, VISION, "/explore")
    set_current(VISION)
    with Stores(house).scoped_to(VISION) as own:
        text = str(explore.result(own, filters_of(own, "?sql=SELECT+1"), language("en")))
    assert "may not do this" in text


def test_the_examples_are_the_cookbook_s() -> None:
    cookbook = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
    for name in explore.EXAMPLES:
        assert f"```sql\n{explore.example(name, 'Europe/Berlin')}```" in cookbook


def test_the_examples_cut_months_and_days_in_the_billing_zone() -> None:
    cut = [
        name
        for name in explore.EXAMPLES
        if "toStartOfMonth" in explore.example(name, "UTC") or "toDate(" in explore.example(name, "UTC")
    ]
    assert explore.EXAMPLES[0] in cut
    for name in cut:
        assert "'Asia/Kathmandu') AS" in explore.example(name, "Asia/Kathmandu"), name


def test_a_state_is_no_button(house: Store) -> None:
    """As found: "State: Disable" of everybody who may sign in, and "State: Revoke" of each token that works."""
    at = site.NOW
    user = Person("i", "s", "ann", Kind.local, frozenset({Role.tenant}), frozenset(), False, at, at, "me", None)
    assert "Span(className='gl-dot gl-good'), 'active'" in str(people._user_state(user, language("en")))
    assert "'disabled'" in str(people._user_state(replace(user, disabled=True), language("en")))
    token = Token("t", "for grafana", user, user.roles, frozenset(), frozenset(), at, "me", at + timedelta(1), False)
    assert "'valid'" in str(people._token_state(token, at, language("en")))


def test_what_no_rule_fits_is_as_much_as_the_books_have_of_it(house: Store) -> None:
    set_current(FINANCE)
    text = str(applied_files.unmapped_table(house, filters_of(house, ""), language("en")))
    reported = house.value("SELECT sum(allocated_gpu_hours) AS h FROM v_usage_hourly WHERE tenant = 'vision'")
    assert f"'gpu_hours': {reported:.6f}" in text
    assert "'reported_tenant': 'speech'" not in text


def test_without_a_mapping_nothing_is_said_to_match_it(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: "No tenant mapping has been applied", and below it "Every allocation matches a rule"."""
    set_current(FINANCE)
    monkeypatch.setattr(applied_files, "unmapped", lambda _: [])
    for mapping, said in ((object(), "Every allocation matches a rule"), (None, "No mapping has been applied")):
        monkeypatch.setattr(applied_files, "current_mapping", lambda _, mapping=mapping: mapping)
        assert said in str(applied_files.unmapped_table(house, filters_of(house, ""), language("en")))


def test_administration_shows_prices_and_what_was_done(house: Store) -> None:
    prices = page(house, FINANCE, "/administration")
    assert "tenant speech, model H100" in prices
    assert "Rate card in force" in prices
    assert "'windows': 'always'" in prices and "'to_text': 'open'" in prices
    done = house.value("SELECT count() AS n FROM audit WHERE action = 'rates.apply'")
    audit = page(house, FINANCE, "/administration?part=audit&find=rates.apply")
    assert f"{done} row" in audit
    assert "before: null" not in audit


def test_a_token_s_name_is_no_reason() -> None:
    """As found: "Reason: old-dashboard"."""
    row = {"action": "token.create", "object": "2b32ca32037c", "reason": "old-dashboard"}
    assert admin._object(row) == {"object": "old-dashboard, 2b32ca32037c", "reason": ""}
    revoked = {**row, "action": "token.revoke", "reason": "lost"}
    assert admin._object(revoked) == {"object": "2b32ca32037c", "reason": "lost"}


def test_instants_in_the_audit_are_on_the_books_clocks() -> None:
    """As found: `2027-11-30T23:05:08.604017+00:00` on a page whose foot names the zone of its times."""
    words = language("en")
    named = {"expires_at": "2027-11-30T23:05:08.604017+00:00", "ends": ["2026-12-13 23:04:00+00:00"], "none": None}
    stored = admin._inputs(named)
    said = with_moments(stored, admin.INSTANT, lambda at: words.dated(at.astimezone(ZoneInfo("Europe/Berlin"))))
    assert said == 'expires_at: 1 December 2027, 00:05, ends: ["14 December 2026, 00:04"]'


def test_the_audit_has_what_was_done_last_first_also_within_a_millisecond(house: Store) -> None:
    """As found: a token revoked below its creation, as actions of one instant were ordered by their names."""
    at, done = datetime(2026, 10, 3, 4, 5, 6, tzinfo=UTC), ("moment.revoke", "moment.create", "moment.sign")
    for action in done:
        audit.record(house, at, "ada", action, "one")
    shown = house.rows(read_sql(admin.__file__, "audit"), {"find": "moment.", "most": 10})
    assert [row["action"] for row in shown] == list(reversed(done))
    assert [row["action"] for row in audit.history(house, "moment")] == list(done)


def test_a_budget_that_has_ended_says_how_its_last_month_ended(house: Store) -> None:
    """As found: half of the table were dashes, and an overrun of last month was nowhere."""
    one = Budget(tenant="vision", amount="100.00", effective_from="2026-09", effective_to="2026-10")
    filters = filters_of(house, "")
    for spent, state, part in (
        (None, "ended", None),
        (Decimal(100), "ended, within budget", 1),
        (Decimal("118.70"), "ended, over budget", Decimal("1.187")),
    ):
        row = in_force._budget(one, None, spent, "2026-10", filters, language("en"))
        assert (row["state"], row["spent"], row["percent"]) == (state, spent, part)


def test_administration_shows_each_budget_in_force_and_how_it_stands(house: Store) -> None:
    """As found: YAML alone. The test's budgets hold in every month, so they stand as the newest one's costs do."""
    rows = grid_of(house, "/administration?part=budgets", "admin-budgets")
    (month,) = house.rows("SELECT formatDateTime(max(hour), '%Y-%m') AS name FROM closed_hours")
    spent = {
        row["tenant"]: row["cost"]
        for row in house.rows(
            "SELECT tenant, sum(billed_cost) AS cost FROM v_charges WHERE formatDateTime(charge_period_start, '%Y-%m')"
            " = {month:String} GROUP BY tenant",
            {"month": month["name"]},
        )
    }
    for tenant, amount in (("vision", 100), ("speech", 200)):
        (row,) = (one for one in rows if one["tenant"] == tenant)
        part = float(spent.get(tenant, 0)) / amount
        assert (row["amount"], row["months"]) == (amount, "always")
        assert row["spent"] == pytest.approx(float(spent.get(tenant, 0)))
        assert row["percent"] == pytest.approx(part), "exact: rounded twice, 78.150 % was 78.1 here and 78.2 on Tenants"
        assert (row["state"] == "over budget") == (part > 1), row
    text = page(house, FINANCE, "/administration?part=budgets").replace("\\xa0", " ")
    assert "As written (YAML)" in text and "currency: EUR" in text
    assert re.search(r"Amounts and states of \w+ 2026 cover closed hours, until \d+ \w+ 2026, \d\d:00\.", text)
    assert in_force._known(None, "2026-11", filters_of(house, ""), EN) == "Nothing of November 2026 is closed yet."


def grid_of(store: Store, path: str, id: str) -> list[dict[str, Any]]:
    """The rows of a page's grid."""
    with open_access(store) as access, Stores(store).scoped_to(FINANCE) as own:
        set_current(FINANCE, access)
        address, _, search = path.partition("?")
        found = show(own, FINANCE, address, search).page
    (grid,) = (one for one in found._traverse() if getattr(one, "id", "") == id)
    rows: list[dict[str, Any]] = grid.rowData
    return rows


def test_administration_shows_objectives_energy_and_parties_in_force(house: Store) -> None:
    now = datetime(2026, 11, 5, 12, tzinfo=UTC)
    promised = [
        {"name": "chat", "kind": "latency", "metric": "ttft", "at_most_seconds": "2.5", "target": "0.9"},
        {"name": "waits", "kind": "queue_wait", "match": {"queue": "ma*"}, "within": "5m", "target": "0.9"},
        {"name": "quota", "kind": "quota_redemption", "guaranteed_gpus": 2, "target": "0.5"} | {"match": VISIONS},
    ]
    apply_objectives(house, parse_objectives({"objectives": promised}), "test", "", now)
    rows = {row["name"]: row for row in grid_of(house, "/administration?part=objectives", "admin-objectives")}
    assert {name: (row["about"], row["bound"], row["state"]) for name, row in rows.items()} == {
        "chat": ("anything", "2.5 s", "1 unknown"),
        "waits": ("queue ma*", "5 min", "1 unknown"),
        "quota": ("tenant vision", "2 GPUs", "1 unknown"),
    }
    grid = {"region": "DE", "cluster": "c*", "hourly": ["300", "400"], "effective_from": "2026-10-01", "source": "told"}
    apply_energy_settings(house, parse_energy_settings({"intensity": [grid]}), "test", "", now)
    (row,) = grid_of(house, "/administration?part=energy", "admin-energy")
    assert (row["about"], row["grams"], row["times"]) == ("cluster c*", 350, "from 1 October 2026, 00:00 on")
    buyer = {"tenant": "vision", "name": "Vision Ltd", "address": ["1 Quay", "Dublin"], "effective_to": "2026-12-01"}
    apply_parties(house, parse_parties({"buyers": [buyer]}), "test", "", now)
    (row,) = grid_of(house, "/administration?part=parties", "admin-parties")
    assert (row["tenant"], row["address"], row["times"]) == ("vision", "1 Quay, Dublin", "until 30 November 2026")


def test_administration_is_for_those_who_administer(house: Store) -> None:
    for who in (ANALYST, VISION):
        assert "You don't have access to this page" in page(house, who, "/administration?part=audit")
    assert "You don't have access to this page" in page(house, FINANCE, "/administration?part=users")
    assert "/administration?part=users" not in page(house, FINANCE, "/administration?part=tokens")
    assert "Add user" in page(house, ANYBODY, "/administration?part=users")
    set_current(ANALYST)
    with pytest.raises(ForbiddenError):
        applied_files.unmapped_table(house, filters_of(house, ""), language("en"))


class TestInABrowser:
    """What a person does there."""

    pytestmark = MARKS

    @seldom(6, "a statement is run shared by its")
    def test_a_statement_is_run_shared_by_its_address_and_exported(self, url: str, opened: Any) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="light") as (page, wrong):
            page.goto(f"{url}/explore")
            page.get_by_label("Statement").locator("visible=true").last.fill(SPLIT)
            page.keyboard.press("Control+Enter")
            expect(page.locator("#explore-grid")).to_contain_text("vision")
            page.wait_for_url("**sql=SELECT**")
            href = page.get_by_role("link", name="CSV").get_attribute("href")
            assert page.request.get(url + href).text().startswith('"tenant","hours"\n"speech",')
            assert wrong == []

    @seldom(6, "drafts and what no rule fits are")
    def test_drafts_and_what_no_rule_fits_are_taken_along(
        self, url: str, opened: Any, house: Store, tmp_path: Path
    ) -> None:
        with tab(opened) as (page, wrong):
            page.goto(f"{url}/administration?part=tenants")
            page.locator("#admin-unmapped-grid .ag-row[row-id]").first.wait_for()
            rows = taken(page, "gpuledger-unmapped.csv", tmp_path)
            reported = house.value("SELECT sum(allocated_gpu_hours) AS h FROM v_usage_hourly WHERE tenant = 'vision'")
            assert sum(float(row["GPU-hours"]) for row in rows) == pytest.approx(float(reported))
            held: list[Any] = []
            page.route("**/api/v1/drafts*", lambda route: held.append(route))
            page.goto(f"{url}/invoices?month=2026-10")
            said = page.locator("#invoices-drafts .ag-aria-description-container")  # to screen readers
            said.filter(has_text="Loading…").wait_for(state="attached")
            assert "Nothing left" not in (page.locator("#invoices-drafts").text_content() or "")
            for route in held:
                route.continue_()
            page.unroute("**/api/v1/drafts*")
            page.locator("#invoices-drafts .ag-overlay-no-rows-center").wait_for(state="attached")
            assert not page.locator("#invoices-drafts").is_visible(), "as found: an empty table was the widest card"
            page.get_by_text("Nothing is left to invoice").wait_for()
            assert page.locator(".gl-all-issued").evaluate("one => one.firstChild.offsetWidth == one.offsetWidth")
            assert wrong == []

    @seldom(6, "a token is made told once and")
    def test_a_token_is_made_told_once_and_revoked(self, url: str, opened: Any, house: Store) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="light") as (page, wrong):
            page.goto(f"{url}/administration?part=tokens")
            page.get_by_label("Name").fill("for grafana")
            page.get_by_label("Scopes").select_option("read,sql")
            page.get_by_role("button", name="Create token").click()
            expect(page.locator(".gl-secret code")).to_contain_text("gpl_")
            picture(page, "admin-tokens-light-en")
            page.reload()
            page.on("dialog", lambda dialog: dialog.accept())
            revoke = page.get_by_role("button", name="Revoke")
            page.set_viewport_size({"width": 390, "height": 844})
            box = revoke.bounding_box()
            assert box is not None and box["x"] + box["width"] <= 390, "as found: beside the screen of a phone"
            page.locator("td[data-head='Expires']").scroll_into_view_if_needed()
            expect(page.locator("td[data-head='Expires']")).to_be_in_viewport()
            revoke.click()
            expect(page.locator(".gl-state", has_text="revoked")).to_be_visible()
            assert wrong == []
        with open_access(house) as access:
            (made,) = list_tokens(access)
        assert (made.name, sorted(made.scopes), made.revoked) == ("for grafana", ["read", "sql"], True)
        assert made.owner.label == "for grafana (service)"

    @seldom(6, "a credit note is issued from an")
    def test_a_credit_note_is_issued_from_an_invoice(self, url: str, opened: Any, house: Store) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="light") as (page, wrong):
            page.goto(f"{url}/invoices?month=2026-10")
            page.get_by_role("link", name="GL-2026-00002").click()
            expect(page.locator("h1")).to_have_text("GL-2026-00002")
            page.get_by_role("link", name="1. h100").click()
            expect(page.locator("#invoice-explained")).to_contain_text("w-vision")
            credit, amount = page.locator("#credit"), page.get_by_label("Net amount, EUR")
            expect(credit.get_by_label("Reason")).to_have_value("Line 1: h100")
            expect(amount).to_have_value(re.compile(r"96(\.0+)?"))
            credit.get_by_label("Reason").fill("a node was down")
            amount.fill("1000")
            page.get_by_role("button", name="Credit line 1").click()
            expect(page.locator(".gl-refused", has_text="can still be credited")).to_be_visible()
            amount.fill("6.00")
            page.get_by_role("button", name="Credit line 1").click()
            expect(page.get_by_role("link", name="GL-2026-00003")).to_be_visible()
            assert [one for one in wrong if "409" not in one] == []
        (note,) = house.rows("SELECT net, `references` FROM v_invoices WHERE document_type = 'credit_note'")
        assert (float(note["net"]), note["references"]) == (-6.0, "GL-2026-00002")


def test_each_view_is_described_in_each_language(house: Store) -> None:
    views = house.rows(read_sql(explore.__file__, "schema"))
    assert views
    for row in views:
        assert language("en").words[f"view.{row['view']}"] == row["comment"].removeprefix("One row: ")
        assert language("zh").words[f"view.{row['view']}"]
