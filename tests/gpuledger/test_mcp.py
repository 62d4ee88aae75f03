"""The MCP server, asked by the protocol's own client over pipes, and its answers against the API and the SQL."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpuledger.client import ApiError, Client
from gpuledger.mcp import tools
from gpuledger.mcp.tools import TOOLS, Answer
from tests.dashboards.site import Site
from tests.draws import keep_seed, seldom
from tests.gpuledger.running import refused
from warehouse.errors import LedgerError

ASKED: dict[str, dict[str, Any]] = {
    "idle_holders": {},
    "gpu_waste": {"period": "2026-10"},
    "right_sizing": {"period": "2026-10"},
    "cost_anomalies": {"period": "2026-10"},
    "efficiency_score": {"period": "2026-10"},
    "bill_change": {"tenant": "vision", "month": "2026-10", "before": "2026-10"},
    "why_waiting": {},
    "fair_share": {},
    "budget_status": {"month": "2026-10"},
    "invoice_line": {"number": "GL-2026-00001", "line": 1},
    "firing_alerts": {},
}


@pytest.fixture
def admin(served_site: Site) -> Iterator[Client]:
    with Client(served_site.url, served_site.tokens["admin"]) as client:
        yield client


def sql(site: Site, text: str) -> list[dict[str, Any]]:
    with site.client("admin") as client:
        answer = client.post("/sql?default_format=JSON&output_format_json_quote_decimals=1", content=text)
    assert answer.status_code == 200, (text, answer.text)
    rows: list[dict[str, Any]] = json.loads(answer.text)["data"]
    return rows


def answered(client: Client, name: str) -> Answer:
    return next(tool for tool in TOOLS if tool.__name__ == name)(client, **ASKED[name])


@seldom(5, "an assistant asks")
def test_an_assistant_asks_every_question(served_site: Site) -> None:
    """Over the pipes of a process, as an assistant starts it."""
    from mcp import ClientSession, StdioServerParameters  # a CPU second of each worker that need not run this
    from mcp.client.stdio import stdio_client

    async def conversation() -> tuple[Any, dict[str, Any], Any]:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "gpuledger", "mcp", "--store", served_site.url],
            env={**os.environ, "GPULEDGER_TOKEN": served_site.tokens["admin"]},
        )  # fmt: skip
        async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            listed = await session.list_tools()
            answers = {name: await session.call_tool(name, ASKED[name]) for name in ASKED}
            return listed, answers, await session.call_tool("invoice_line", {"number": "GL-1999-1", "line": 1})

    listed, answers, unknown = asyncio.run(conversation())
    assert [one.name for one in listed.tools] == list(ASKED)
    for one in listed.tools:
        assert one.annotations.read_only_hint and one.description and "client" not in one.input_schema["properties"]
    for name, answer in answers.items():
        assert not answer.is_error, (name, answer.content)
        assert Answer(**answer.structured_content).answer, name
    assert unknown.is_error
    assert "GL-1999-1" in unknown.content[0].text and "Traceback" not in unknown.content[0].text


@seldom(5, "the SQL behind an answer")
@pytest.mark.parametrize("name", ASKED)
def test_the_sql_behind_an_answer_runs(served_site: Site, admin: Client, name: str) -> None:
    if text := answered(admin, name).sql:
        sql(served_site, text)
    else:
        assert name in ("firing_alerts", "right_sizing", "fair_share")  # of a quota below


def test_the_sql_says_what_the_answer_says(served_site: Site, admin: Client) -> None:
    waste = tools.gpu_waste(admin, "2026-10")
    rows = sql(served_site, waste.sql)
    for name in ("allocated_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours", "idle_cost"):
        assert sum(Decimal(str(row[name])) for row in rows) == Decimal(waste.figures[name]) > -1, name
        assert {row["tenant"]: Decimal(str(row[name])) for row in rows} == {
            one["tenant"]: Decimal(one[name]) for one in waste.evidence
        }, name
    score = tools.efficiency_score(admin, "2026-10")
    used, idle = (sum(Decimal(str(row[f"{name}_gpu_hours"])) for row in sql(served_site, score.sql))
                  for name in ("used", "idle"))  # fmt: skip
    assert [used, used + idle] == [Decimal(score.figures[f"{name}_gpu_hours"]) for name in ("used", "measured")]
    assert score.figures["score"] == round(100 * used / (used + idle))
    budgets = tools.budget_status(admin, "2026-10")
    spent = {row["tenant"]: Decimal(str(row["billed_cost"])) for row in sql(served_site, budgets.sql)}
    assert spent == {one["tenant"]: Decimal(one["actual"]) for one in budgets.evidence}
    one = tools.gpu_waste(admin, "2026-10", "vision")
    assert {row["tenant"] for row in sql(served_site, one.sql)} == {row["tenant"] for row in one.evidence} == {"vision"}


def test_of_what_nobody_measured_the_answer_says_that_its_use_is_unknown(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: "used 0.00; 0.00 were idle" of 1,770 allocated hours, all of them unmetered."""
    assert "unknown" not in tools.gpu_waste(admin, "2026-10").answer
    found = admin.efficiency("2026-10", ("tenant", "project"))
    rows = [row.model_copy(update={"unmetered_gpu_hours": Decimal("5")}) for row in found.rows[:1]]
    monkeypatch.setattr(admin, "efficiency", lambda *_: found.model_copy(update={"rows": rows}))
    assert tools.gpu_waste(admin, "2026-10").answer.endswith("; of 5.00 it is unknown whether they were used.")


def test_the_sql_of_a_changed_bill_has_both_bills_and_nothing_between_them(served_site: Site, admin: Client) -> None:
    """As found: of two months apart it also had those between them, and none of what invoices add."""
    same = tools.bill_change(admin, "vision", "2026-10", "2026-10")
    rows = sql(served_site, same.sql)
    assert sum(Decimal(str(row["amounts"])) for row in rows) == Decimal(same.figures["now"]) > 0
    assert {row["month"] for row in rows} == {"2026-10"}
    issued = tools._bill(admin, "vision", "2026-10")
    draft = issued.model_copy(update={"number": None, "status": "draft"})
    rows = sql(served_site, tools._sql_of_bills([draft, issued], "vision"))
    assert [(row["month"], Decimal(str(row["billed_cost"]))) for row in rows] == [("2026-10", Decimal(96))]


def test_the_parts_of_a_changed_bill_sum_to_the_difference(monkeypatch: pytest.MonkeyPatch, admin: Client) -> None:
    def line(kind: str, quantity: str, amount: str, sku: str = "h100", price: str | None = None) -> dict[str, Any]:
        return {"kind": kind, "quantity": quantity, "amount": amount, "sku": sku, "project": "", "charge_class": None,
                "contracted_unit_price": price}  # fmt: skip

    bill = admin.drafts("2026-10", "vision")
    draft = next(iter(bill))
    bills: dict[str, list[dict[str, Any]]] = {
        "2026-09": [line("usage", "10", "20.00"), line("usage", "5", "5.00", "l40s"), line("tax", "0", "4.75"),
                    line("usage", "1.5", "0.50", "third", "0.333333333")],
        "2026-10": [line("usage", "12", "30.00"), line("minimum", "0", "7.00"), line("tax", "0", "5.70"),
                    line("usage", "2.5", "0.83", "third", "0.333333333")],
    }  # fmt: skip
    monkeypatch.setattr(
        tools, "_bill", lambda _client, _tenant, month: draft.model_copy(update={"lines": bills[month], "number": None})
    )
    found = tools.bill_change(admin, "vision", "2026-10", "2026-09")
    before = next(note for note in found.notes if note.startswith("2026-09: "))
    assert before.startswith("2026-09: Nothing from ") and " is closed: the books are closed from " in before
    parts = {one["what"]: one for one in found.evidence}
    assert found.figures["difference"] == "13.28"
    # usage: h100 4.00 + 6.00, l40s -5.00, third 0.33; the minimum 7.00 and the tax 0.95 have no split
    by = {name: found.figures[f"by_{name}"] for name in ("hours", "price", "other_lines")}
    assert by == {"hours": "-0.67", "price": "6.00", "other_lines": "7.95"}
    assert sum(Decimal(one["difference"]) for one in found.evidence) == Decimal("13.28")
    third = parts["usage third"]
    assert (third["by_quantity"], third["by_price"]) == ("0.33", "0.00"), (
        "the price is the same: rounding is none of it"
    )
    assert (parts["usage h100"]["by_quantity"], parts["usage h100"]["by_price"]) == ("4.00", "6.00")
    assert (parts["usage l40s"]["by_quantity"], parts["tax h100"]["by_price"]) == ("-5.00", None)


def test_an_expected_start_that_is_past_is_called_overdue(monkeypatch: pytest.MonkeyPatch, admin: Client) -> None:
    found = admin.waiting()
    span = {
        "earliest_start": datetime(2026, 10, 2, 13, tzinfo=UTC),
        "latest_start": datetime(2026, 10, 2, 15, tzinfo=UTC),
    }
    for is_, said in (
        ("ahead", "It is expected to start between 2026-10-02 13:00 UTC and 2026-10-02 15:00 UTC."),
        ("due", "It is expected to start by 2026-10-02 15:00 UTC: "),
        ("overdue", "Its start is overdue: its scheduler announced 2026-10-02 13:00 UTC to 2026-10-02 15:00 UTC."),
    ):
        first = found.jobs[0].model_copy(update={**span, "start_is": is_})
        monkeypatch.setattr(admin, "waiting", lambda *_, job=first: found.model_copy(update={"jobs": [job]}))
        answer = tools.why_waiting(admin)
        assert said in answer.answer
        assert answer.figures["start_is"] == is_


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal("33.33333333333333333333333"), "33.333333333"),
        (Decimal("0.0000000005"), "0.00"),  # half to even, as the API's
        (Decimal("0.0000000015"), "0.000000002"),
        (Decimal("-12.500000000"), "-12.50"),
        (Decimal("96.000000000"), "96.00"),
        (Decimal("4800"), "4800"),  # yen
        (Decimal("1E+3"), "1000"),
        (0.1 + 0.2, 0.3),
    ],
)
def test_a_figure_is_as_people_read_it(value: Any, shown: Any) -> None:
    assert tools._shown({"one": [value]}) == {"one": [shown]}


def test_figures_have_nine_decimals_at_most_and_names_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, admin: Client
) -> None:
    def decimals(value: Any) -> Iterator[str]:
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from decimals(one)
        if isinstance(value, str):
            yield from re.findall(r"^-?\d+\.(\d+)$", value)

    third = Decimal(100) / 3
    draft = next(iter(admin.drafts("2026-10", "vision")))
    bills = {
        month: [{"kind": "usage", "quantity": quantity, "amount": amount, "sku": "1.1000000000000", "project": "",
                 "charge_class": None}]
        for month, quantity, amount in (("2026-09", "7", str(third)), ("2026-10", "3", "0.01"))
    }  # fmt: skip
    monkeypatch.setattr(
        tools, "_bill", lambda _client, _tenant, month: draft.model_copy(update={"lines": bills[month]})
    )
    changed = tools.bill_change(admin, "vision", "2026-10", "2026-09")
    (effect,) = changed.evidence
    assert effect["what"] == "usage 1.1000000000000"
    assert Decimal(effect["by_quantity"]) + Decimal(effect["by_price"]) == Decimal(effect["difference"])
    for answer in (changed, *(answered(admin, name) for name in ASKED)):
        longest = max(map(len, decimals([answer.figures, answer.evidence])), default=0)
        assert longest <= 9, answer
    (row,) = answered(admin, "invoice_line").evidence
    assert (row["allocation"], row["allocated_gpu_hours"]) == ("2", "48.00")


def test_what_has_no_price_is_unknown_and_said(monkeypatch: pytest.MonkeyPatch, admin: Client) -> None:
    found = admin.efficiency("2026-10", ("tenant", "project"))
    blank = {"idle_cost": None, "unpriced_gpu_hours": Decimal(3)}
    some = found.model_copy(update={"rows": [found.rows[0].model_copy(update=blank), *found.rows[1:]]})
    none = found.model_copy(update={"rows": [row.model_copy(update=blank) for row in found.rows]})
    for rows, known in ((some, True), (none, False)):
        monkeypatch.setattr(admin, "efficiency", lambda *_, rows=rows: rows)
        answer = tools.gpu_waste(admin, "2026-10")
        assert (answer.figures["idle_cost"] is not None) == known
        assert any("have no price" in note for note in answer.notes)
    assert "an unknown amount" in answer.answer
    assert "No allocated time is known of nobody-here" in tools.gpu_waste(admin, "2026-10", "nobody-here").answer


def test_what_is_no_bill_or_month_is_refused(admin: Client) -> None:
    with pytest.raises(LedgerError, match="tenant: is empty"):  # two tenants' bills were compared
        tools.bill_change(admin, "", "2026-10", "2026-09")
    for month in ("2026-13", "October"):
        with pytest.raises(LedgerError, match=r"is no month\. Write it like 2026-10"):
            tools.budget_status(admin, month)
        with pytest.raises(LedgerError, match="is no month"):
            tools.bill_change(admin, "vision", month, "2026-10")


def test_a_month_that_is_not_given_is_the_last_with_closed_hours(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tools.budget_status(admin) == tools.budget_status(admin, "2026-10")
    same = tools.bill_change(admin, "vision", before="2026-10")
    assert same == tools.bill_change(admin, "vision", "2026-10", "2026-10")
    with pytest.raises(ApiError, match="has no allocations in 2026-09"):
        tools.bill_change(admin, "vision")
    assert tools._month_before("2026-01") == "2025-12"
    monkeypatch.setattr(admin, "months", list)
    with pytest.raises(LedgerError, match=r"no hour is closed\. Name one"):
        tools.budget_status(admin)


def test_arguments_that_do_not_fit_are_refused_in_one_line(admin: Client) -> None:
    """As found: pydantic's four lines, with a link to its errors."""
    from mcp.server.mcpserver.exceptions import ToolError

    from gpuledger.mcp.server import server

    for name, arguments, said in (
        ("bill_change", {}, r"bill_change: tenant: is missing"),
        ("invoice_line", {"line": "x"}, r"invoice_line: number: is missing; line: Input should be a valid integer.*"),
    ):
        with pytest.raises(ToolError, match=rf"^{said}$"):
            asyncio.run(server(admin).call_tool(name, arguments))


def test_what_nobody_holds_costs_nothing_unknown_and_hours_that_are_not_closed_are_said(admin: Client) -> None:
    assert tools.idle_holders(admin, "nobody-here").answer.endswith("there is no allocation of nobody-here.")
    books = "the books are closed from 2026-10-01 00:00Z to 2026-11-01 00:00Z."
    nothing = f"Nothing from 2030-01-01 00:00Z to 2030-02-01 00:00Z is closed: {books}"
    assert tools.gpu_waste(admin, "2030-01").notes == [nothing]
    part = admin.efficiency("2026-10").period.model_copy(update={"closed_hours": 24})
    part = part.model_copy(update={"checked_until": None})
    only = f"Only 24 of 744 hours are closed, and the figures are of those: {books}"
    assert tools._not_closed(part) == [only]
    since = part.model_copy(update={"closed_from": part.end and part.end - timedelta(days=1)})
    begins = "The books begin with the inventory, at 2026-10-31 00:00Z: the figures are of all 24 hours since."
    assert tools._not_closed(since) == [begins]


def test_a_tenant_is_answered_from_its_own_books(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["vision"]) as client:
        for name in ASKED:
            try:
                text = answered(client, name).model_dump_json()
            except (ApiError, LedgerError) as error:
                text = str(error)
            assert "speech" not in text and "GPU-b" not in text, name
    with Client(served_site.url, "nonsense") as client, pytest.raises(ApiError, match="unknown, expired or revoked"):
        tools.gpu_waste(client)


def test_a_store_is_not_a_server() -> None:
    assert "asks a server, not a store" in refused("mcp", "--store", "chdb://memory")


def test_a_fair_share_is_what_the_scheduler_reported_last(served_site: Site, admin: Client) -> None:
    """Drawn accounts, against sums of their own; a tenant is told its own."""
    draw = random.Random(keep_seed())
    at = admin.now().at
    assert at is not None
    last, before = (f"{at - timedelta(minutes=m):%F %T}" for m in (1, 2))
    names = ("guaranteed", "held", "asked")
    drawn = {(tenant, pool): {name: draw.randint(0, 9) / draw.choice((1, 2)) for name in names}
             for tenant in ("vision", "speech") for pool in ("", "train")}  # fmt: skip
    rows = []
    for (tenant, pool), account in drawn.items():
        label = f'{{pool="{pool}",tenant="{tenant}"}}'
        rows += [f"('{last}', 'c1', 'scheduler', '{tenant}', 'tenant_{name}_gpus{label}', {value})"
                 for name, value in account.items()]  # fmt: skip
        rows.append(f"('{before}', 'c1', 'scheduler', '{tenant}', 'tenant_held_gpus{label}', 99)")
    columns = "ts, cluster, service, tenant, metric, value"
    served_site.store.command(f"INSERT INTO service_levels ({columns}) VALUES {', '.join(rows)}")
    try:
        for tenant in ("vision", "speech"):
            own = [account for (name, _), account in drawn.items() if name == tenant]
            expected = {name: sum(one[name] for one in own) for name in names}
            expected["owed"] = sum(max(0, min(one["guaranteed"] - one["held"], one["asked"])) for one in own)
            expected["borrowed"] = sum(max(0, one["held"] - one["guaranteed"]) for one in own)
            all_held = sum(one["held"] for one in drawn.values())
            with Client(served_site.url, served_site.tokens[tenant]) as client:
                told, whole = tools.fair_share(client, tenant), tools.fair_share(admin, tenant)
            for answer in (told, whole):
                assert {name: answer.figures[name] for name in expected} == expected
                assert f"Of its jobs, w2-{tenant} has waited longest" in answer.answer
            (other,) = {"vision", "speech"} - {tenant}
            assert other not in told.model_dump_json()
            part = whole.figures["part_of_held"]
            assert part == (pytest.approx(expected["held"] / all_held) if all_held else None)
            assert told.figures["part_of_held"] is None
            shown = sql(served_site, whole.sql)
            for name in names:
                assert sum(row["value"] for row in shown if row["name"] == f"tenant_{name}_gpus") == expected[name]
    finally:
        served_site.store.command("DELETE FROM service_levels WHERE service = 'scheduler'")
    assert "No scheduler has reported a quota" in tools.fair_share(admin).answer
