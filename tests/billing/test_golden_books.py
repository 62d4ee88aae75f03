"""What every command says of two months in which everything meets, figure by figure.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_books.py     renews golden/books.json

Whether the figures are right is for the tests beside this one, which reckon them another way. This one notices that one
of them changed: read the difference before it is renewed.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Self

import pytest
import typer
import yaml
from pyarrow import parquet
from typer.testing import CliRunner

from billing.accounts.costs import Span, Target, cost_of_spans, reached
from billing.documents.csv import as_csv
from billing.documents.page import page_of
from billing.exports import focus
from billing.exports.lines import statement_of, usage_row
from billing.insights.savings import savings
from billing.invoicing.documents import Invoice
from billing.invoicing.drafts import drafts_of
from billing.invoicing.explain import explain
from billing.invoicing.invoices import draft_all, issued
from billing.invoicing.month import books_of
from billing.invoicing.month_states import month_states
from billing.money import minor_digits
from billing.opencost.suggestions import suggestions
from billing.opencost.words import QueryError
from billing.rates import parse_rate_card
from gpuledger import commands
from tests.billing.golden import FOLDER, compare, digest
from tests.billing.test_golden_three_months import DRAWN as DRAWN_IN_DOCUMENTS
from tests.billing.test_golden_three_months import without_drawn
from tests.billing.whole_books import CARD, MAPPING, OCTOBER, SEPTEMBER, drawn_policies, fill_whole_books
from tests.draws import seldom
from tests.stores import engine_that_stays, fresh_store
from warehouse.errors import LedgerError
from warehouse.store import identifier, open_store

pytestmark = seldom(3, "golden files of the books", 1)

FEW = 3
"""Rows of a list that are kept as they are; of a longer one the first, and a digest of each column."""
POLICIES = 8
"""Cards with other policies, by which the same use is drafted."""
SPANS = ("--window", "2026-10-24T12:30:00Z,2026-10-26T01:00:00Z", "--step", "12h")
COMMANDS = (
    "ledger --period 2026-10 --by tenant,project,queue",
    "ledger --period 2026-10 --by model,pool,node,cluster",
    "ledger --by day",
    "ledger --period 2026-10-25 --by device,hour",
    "ledger --period 2026-09 --by workload",
    "efficiency --period 2026-10 --by tenant",
    "efficiency --period 2026-10-05..2026-10-09 --by model,queue",
    "energy --period 2026-10 --by tenant",
    "energy --period 2026-10 --by pool,cluster",
    "energy --period 2026-10-12..2026-10-16 --by day,device",
    "savings --period 2026-10",
    "savings --period 2026-10-03..2026-10-20 --min-coverage 0.2 --idle-hours 2",
    "savings --period 2026-10-20..2026-10-31 --min-coverage 0.666667",
    "anomalies --period 2026-10",
    "anomalies --score 1.5",
    "allocation --window 2026-10 --aggregate namespace --share-idle",
    f"allocation {' '.join(SPANS)} --aggregate pod,node --include-idle --idle-by-node",
    f"allocation {' '.join(SPANS)} --aggregate cluster,label:tenant --accumulate",
    f"allocation {' '.join(SPANS)} --aggregate label:device --filter cluster:\"west\"+label[queue]:\"web\",\"day\"",
    "audit",
    "allocation --window 2026-10 --aggregate cluster,namespace,pod --include-idle",
    "budget status --period 2026-10",
    "budget status --period 2026-09",
    "budget status --period 2026-11",
    "budget list",
    "credits list",
    "credits list --grants",
    "credits balance",
    "invoice draft --period 2026-10",
    "invoice draft --period 2026-09",
    "invoice list",
    "invoice months",
    "invoice platform --period 2026-10",
    "invoice platform --period 2026-09",
    "invoice statement --period 2026-10",
    "tenants list",
    "tenants unmapped",
    "rates list",
    "rates history",
    "energy intensity list",
    "verify",
    "invoice verify GL-2026-00001",
    "invoice show GL-2026-00001",
    "invoice explain 1 --period 2026-10 --tenant chem --by-hour",
    "invoice explain 3 --period 2026-10 --tenant phys",
    "invoice explain 2 --number GL-2026-00001",
    "invoice show GL-2026-00002 --out {out}/issued",
    "invoice show GL-2026-00007 --out {out}/note",
    "invoice draft --period 2026-10 --tenant kyoto --out {out}/draft",
    "invoice statement --period 2026-10 --tenant chem --out {out}/statement",
    "invoice statement --period 2026-10 --out {out}/fleet",
    "invoice parties list",
    "rates diff {card} --period 2026-10",
    "rates diff {other} {card}",
    "rates diff {card} {other}",
    "tenants check {mapping}",
    "report preview --tenant chem --period 2026-10 --out {out}/chem.html",
    "export focus --period 2026-10 --draft --platform --skip-unpriced --out {out}/october.csv",
    "export focus --period 2026-09 --grain day --out {out}/new/september.csv",
    "export focus --period 2026-09 --grain month --version 1.2 --check --out {out}/september.csv.gz",
    "export focus --period 2026-09 --grain month --tenant chem --check --out {out}/chem.parquet",
    "export focus --period 2026-10 --grain month --draft --skip-unpriced --out {out}/by-device.csv",
    "export focus --period 2026-10 --grain month --draft --skip-unpriced --version 1.2 --out {out}/of-all-devices.csv",
)  # fmt: skip
REFUSED = (
    "invoice issue --period 2026-10",
    "invoice issue --period 2026-10-05",
    "invoice issue --period 2099-01",
    "invoice void GL-2026-99999 --reason none",
    "invoice void GL-2026-00001 --reason twice",
    "invoice void GL-2026-00002 --reason ''",
    "invoice credit GL-2026-99999 --amount 1 --reason none",
    "invoice credit GL-2026-00007 --amount 1 --reason note",
    "invoice credit GL-2026-00005 --amount 1 --reason void",
    "invoice credit GL-2026-00002 --amount 1 --reason ''",
    "invoice credit GL-2026-00002 --amount 1 --reason ' '",
    "invoice credit GL-2026-00002 --amount 0 --reason zero",
    "invoice credit GL-2026-00002 --amount -1 --reason less",
    "invoice credit GL-2026-00002 --amount 0.001 --reason digits",
    "invoice credit GL-2026-00002 --amount 999999 --reason more",
    "invoice credit GL-2026-00002 --amount some --reason word",
    "invoice explain 99 --number GL-2026-00001",
    "invoice explain 0 --number GL-2026-00001",
    "invoice show GL-2026-99999",
    "invoice verify GL-2026-99999",
    "credits add --tenant chem --amount 1 --month 2026-09 --reason late",
    "credits add --tenant chem --amount 0 --month 2026-10 --reason zero",
    "credits add --tenant chem --amount 1,5 --month 2026-10 --reason comma",
    "credits add --tenant chem --amount 1.5555555555 --month 2026-10 --reason digits",
    "credits add --tenant chem --amount 1 --month 2026-13 --reason month",
    "credits add --tenant chem --amount 1 --month 2026-10 --reason ''",
    "credits add --tenant chem --amount 1 --month 2026-10 --reason kind --kind other",
    "credits add --tenant chem --amount 1 --month 2026-10 --reason currency --currency USD",
    "credits add --tenant chem --amount 1 --month 2026-10 --reason again --id c1",
    "credits add --tenant chem --amount 1 --month 2026-10 --reason proof --evidence [1]",
    "credits add --tenant chem --amount 1 --month 2026-10 --reason proof --evidence {{",
    "credits reverse c9 --reason none",
    "credits reverse c1-reversed --reason again",
    "credits grant --tenant phys --amount 0 --expires 2199-01-01 --reason zero",
    "credits grant --tenant phys --amount 1.001 --expires 2199-01-01 --reason digits",
    "credits grant --tenant phys --amount 1 --from 2027-01-01 --expires 2027-01-01 --reason never",
    "credits grant --tenant phys --amount 1 --expires 2199-01-01 --reason ''",
    "credits grant --tenant phys --amount 1 --expires 2199-01-01 --reason currency --currency JPY",
    "credits grant --tenant phys --amount 1 --expires 2199-01-01 --reason again --id g1",
    "credits revoke g9 --reason none",
    "export focus --period 2026-10 --out {out}/a.csv",
    "export focus --period 2026-10 --draft --out {out}/a.csv",
    "export focus --period 2026-09 --out {out}/a.xlsx",
    "export focus --period 2026-09 --tenant chem --platform --out {out}/a.csv",
    "export focus --period 2026-07 --invoiced --out {out}/a.csv",
    "export focus --period 2026-09 --tenant nobody --out {out}/a.csv",
    "export check {out}/card.yaml",
    "export check {out}/none.csv",
    "export check {out}/broken.parquet",
    "export check {out}/few.csv",
    "ledger --by colour",
    "ledger --period 2026-13",
    "ledger --period 2026-10-05..2026-10-05",
    "ledger --period 2300-10",
    "efficiency --by colour",
    "energy --by colour",
    "anomalies --score 0",
    "savings --min-coverage 2",
    "rates show none",
    "rates apply {other} --reason other",
    "tenants apply {mapping} --reason other",
    "budget apply {budgets} --reason dollars",
    "rates diff {card} {out}/none.yaml",
    "allocation --window 2026-10 --aggregate colour",
    "allocation --window sometime",
    "allocation --window 2026-10-02T00:00:00Z,2026-10-01T00:00:00Z",
    "allocation --window 2000-01-01T00:00:00Z,2026-10-01T00:00:00Z",
    "allocation --window 2026-10 --step 1x",
    "allocation --window 2026-10 --step 0h",
    "allocation --window 2026-10 --step 1m",
    "allocation --window 2026-10 --filter 'colour:\"red\"'",
    "allocation --window 2026-10 --filter 'label[colour]:\"red\"'",
    "allocation --window 2026-10 --filter 'cluster'",
    "allocation --window 2026-10 --filter 'cluster:\"a\"+cluster:\"b\"'",
)  # fmt: skip
"""What must not be done, or cannot be."""
SUGGESTED = (
    "field=namespace", "field=Node&search=N", "field=pod&limit=2", "field=label:tenant&filter=cluster:\"west\"",
    "field=node,pod", "field=", "field=node&limit=0", "field=node&limit=1000", "field=node&limit=1001",
    "field=node&limit=x", "field=colour",
)  # fmt: skip
SETTINGS = ("rate_cards", "tenant_mappings", "energy_settings", "budgets", "parties")
FACTS = ("ledger", "energy", "allocations", "refused_claims", "ledger_days", "stream_hours")
TABLES = (*FACTS, *SETTINGS, "closed_hours", "invoices", "voided_invoices", "credits", "grants", "audit")
DRAWN = {"run", "document", "previous", "digest", "batch", "inputs", "checked_by", "content", "seal", "ingested_on"}
"""Columns of them that are others each time that the books are made."""
ASKED_TO_FAIL = {"tenants check {mapping}": 1}


class Then(datetime):
    """What a command takes for now: grants run out and months end."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2026, 11, 23, 12, tzinfo=tz)


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The store's address; and the closes' numbers, which are drawn, as names."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    import_commands()
    with engine_that_stays(), pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("gpuledger.commands.") and hasattr(module, "datetime"):
                patch.setattr(module, "datetime", Then)
        with fresh_store(folder, fill_whole_books) as store:
            runs = [str(row["run"]) for row in store.rows("SELECT run FROM close_runs ORDER BY started_at")]
        yield f"chdb://{folder}", {run: f"close {number}" for number, run in enumerate(runs, 1)}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files that commands read, and a folder for those that they write."""
    folder = tmp_path_factory.mktemp("files")
    dearer = [{**rate, "price_per_gpu_hour": "3.33"} if rate["sku"] == "spot" else rate for rate in CARD["rates"]]
    rules = [{**rule, "cost_center": "14"} if "workload" in rule["match"] else rule for rule in MAPPING["rules"][1:]]
    other = {
        **CARD,
        "timezone": "Asia/Kolkata",
        "minimum_seconds": 30,
        "priority_classes": {"high": {"from": 90}, "low": {"to": 0}, "none": {"from": 0, "to": 1}},
        "rates": [
            *(
                {**rate, "effective_from": "2026-10-12"} if rate["sku"] == "h100-chem" else rate
                for rate in CARD["rates"][1:]
            ),
            {"sku": "tpu", "match": {"model": "TPU"}, "price_per_gpu_hour": "0.50"},
        ],
        "commitments": CARD["commitments"][:2],
        "discounts": [{**CARD["discounts"][1], "tiers": [{"from": "9", "percent": "1"}]}, *CARD["discounts"][2:]],
        "idle_policy": [CARD["idle_policy"][n] for n in (1, 0, 2, 3)],
        "taxes": [],
    }
    files = {"card": {**CARD, "rates": dearer}, "other": other, "mapping": {**MAPPING, "rules": rules}}
    files["budgets"] = {"currency": "USD", "budgets": [{"tenant": "chem", "amount": "1.00"}]}
    (folder / "few.csv").write_text("BilledCost,Other\n1,2\n")
    (folder / "broken.parquet").write_text("PAR1")
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return {**{name: str(folder / f"{name}.yaml") for name in files}, "out": str(folder)}


def import_commands() -> None:
    """All of them, for whoever puts something into their modules."""
    for module in {name for entry in commands.COMMANDS.values() for name in entry.modules}:
        importlib.import_module(f"gpuledger.commands.{module}")


@cache
def app() -> typer.Typer:
    from gpuledger.cli import build

    return build()


def condensed(value: Any) -> Any:
    """The same where it is short; of long lists what tells which column of which list is another."""
    if isinstance(value, dict) and not (len(value) > FEW and all(isinstance(one, dict) for one in value.values())):
        return {name: condensed(one) for name, one in value.items()}
    if isinstance(value, dict):
        return condensed([{"key": name, **one} for name, one in value.items()])
    if isinstance(value, str) and len(value) > 120:
        return f"{value[:40]}... {len(value)} {digest(value)}"
    if not isinstance(value, list) or len(value) <= FEW:
        return [condensed(one) for one in value] if isinstance(value, list) else value
    if not all(isinstance(one, dict) for one in value):
        return {"rows": len(value), "first": condensed(value[0]), "all": digest(value)}
    names = dict.fromkeys(name for one in value for name in one)
    columns = {name: digest([one.get(name) for one in value]) for name in names}
    return {"rows": len(value), "first": condensed(value[0]), "columns": columns}


def with_fixed(value: Any) -> Any:
    """A document in which stands something else for what is drawn each time."""
    if isinstance(value, dict):
        fixed = {**dict.fromkeys(DRAWN_IN_DOCUMENTS, "1"), "closed_at": "2026-11-03T00:00:00.000Z"}
        return {name: fixed.get(name, with_fixed(one)) for name, one in value.items()}
    return [with_fixed(one) for one in value] if isinstance(value, list) else value


def parsed(text: str) -> Any:
    """JSON, or else a table's rows, or else the text."""
    if text.startswith(("{", "[")):
        return json.loads(text)
    rows = list(csv.DictReader(text.splitlines()))
    return rows if rows and len(rows[0]) > 9 else text


def text_of(path: Path) -> str:
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
        return json.dumps([{name: str(cell) for name, cell in row.items()} for row in rows])
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def said(printed: str, words: list[str], closes: dict[str, str]) -> Any:
    """What a command printed, or else wrote: its file, or those of its folder of which people can read the text."""
    if "--out" not in words:
        texts = {"": printed}
    else:
        out = Path(words[words.index("--out") + 1])
        files = [one for one in sorted(out.iterdir()) if one.suffix != ".pdf"] if out.is_dir() else [out]
        texts = {one.name: text_of(one) for one in files}
    for name, text in texts.items():
        numbers = rf"(?<![\w.])({'|'.join(closes)})(?!\w|\.\d)"  # not digits of an amount that are one's by chance
        reported = re.sub(numbers, lambda match: closes[match[0]], text)
        texts[name] = re.sub(r'("closed_at": "|facts until )[^"<]*', r"\1now", reported)
    found = {name: parsed(text) for name, text in texts.items()}
    return found if len(found) > 1 else next(iter(found.values()))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_figure_is_that_of_the_golden_file(
    books: tuple[str, dict[str, str]], places: dict[str, str], command: str
) -> None:
    url, closes = books
    words = [word.format(**places) for word in command.split()]
    writes = "--out" in words
    as_json = not writes and words[:2] != ["tenants", "check"]
    result = CliRunner().invoke(app(), [*words, "--store", url, *(["--format", "json"] if as_json else [])])
    assert result.exit_code == ASKED_TO_FAIL.get(command, 0), f"{result.output}\n{result.exception!r}"
    compare("books", command, json.loads(json.dumps(condensed(said(result.stdout, words, closes)))))


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_of_the_books_is_that_of_the_golden_file(books: tuple[str, dict[str, str]], table: str) -> None:
    with open_store(books[0]) as store:
        sql = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
        names = [row["name"] for row in store.rows(sql, {"table": table}) if row["name"] not in DRAWN]
        chosen = ", ".join(f"toString({identifier(name)}) AS {identifier(name)}" for name in names)
        asked = "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = {table:String}"
        engine = store.value(asked, {"table": table})
        merged = "FINAL" if engine.endswith("MergeTree") and engine != "MergeTree" else ""
        ordered = ", ".join(map(identifier, names))
        rows = store.rows(f"SELECT {chosen} FROM {identifier(table)} {merged} ORDER BY {ordered}")
    compare("books", f"table {table}", condensed(rows))


def test_every_line_is_explained_as_in_the_golden_file(books: tuple[str, dict[str, str]]) -> None:
    """Of each kind of line, of an invoice's own and of corrections, the first; and all corrections of use."""
    found = {}
    with open_store(books[0]) as store:
        for invoice in [*issued(store), *draft_all(store, OCTOBER)]:
            for number, line in enumerate(invoice.lines, 1):
                kind = (invoice.number is None, line["kind"], line["charge_class"])
                if kind not in found or (line["kind"] == "usage" and line["charge_class"]):
                    name = kind if kind not in found else (*kind, invoice.tenant, number)
                    explained = explain(store, invoice, number, by_hour=number % 2 == 0)
                    if line["kind"] == "tax" and not line["charge_class"] and not invoice.is_credit_note:
                        taxed = sum(Decimal(row["billed_cost"] or 0) for row in explained.rows)
                        said = Decimal(line["description"].rpartition(" of ")[2].replace(",", ""))
                        assert round(taxed, minor_digits(invoice.currency)) == said, (invoice.number, number)
                    rows = json.loads(json.dumps([dict(row) for row in explained.rows], default=str))
                    found[name] = condensed([explained.formula, explained.rules, rows])
    texts = {" ".join(map(str, name)): one for name, one in found.items()}
    compare("books", "explained", texts)


@pytest.mark.parametrize("number", range(POLICIES))
def test_drafts_by_any_policies_are_those_of_the_golden_file(books: tuple[str, dict[str, str]], number: int) -> None:
    """The same use, and other discounts, quotas, components, minimums, taxes and bearers of idle time: what the
    drafts come to, and what their pages, tables and lines of FOCUS say."""
    with open_store(books[0]) as store:
        now = books_of(store)
        assert now.current is not None
        card = parse_rate_card(drawn_policies(number))
        found = {}
        for draft in drafts_of(store, OCTOBER, None, replace(now, current=replace(now.current, card=card))):
            document = without_drawn(draft.document)
            lines = [f"{line['kind']} {line['charge_class'] or ''} {line['amount']}" for line in document["lines"]]
            found[draft.tenant] = [draft.amount, condensed(lines), digest(document.pop("lines")), digest(document)]
            shown = Invoice(with_fixed(draft.document))
            rows = statement_of(shown)
            focus_rows = [*rows.rows, *(usage_row(rows, group) for group in rows.groups.values())]
            for reported in (focus_rows, asdict(page_of(shown)), as_csv(shown)):
                found[draft.tenant].append(digest(json.loads(json.dumps(reported, default=str))))
    compare("books", f"policies {number}", json.loads(json.dumps(found, default=str)))


def test_the_report_on_one_workload_equals_the_golden_file(books: tuple[str, dict[str, str]]) -> None:
    found = {}
    with open_store(books[0]) as store:
        for workload in ("both", "small", "moved", "serve-0"):
            reported = savings(store, OCTOBER, workload=workload)
            document = json.loads(json.dumps(reported.document(), default=str))
            found[workload] = condensed({**document, "monthly_amount": str(reported.monthly_amount)})
            again = [row for one in reported.recommendations for row in store.rows(one.reproduce)]
            found[f"{workload}, computed again"] = condensed(json.loads(json.dumps(again, default=str)))
    compare("books", "savings of workloads", found)


def test_an_export_in_small_slices_is_the_same(
    books: tuple[str, dict[str, str]], places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(focus, "SLICE_ENTRIES", 100)
    out = Path(places["out"]) / "slices.csv"
    for command in (one for one in COMMANDS if one.startswith("export focus --period 2026-09 --grain day")):
        words = [*command.split()[:-1], str(out), "--store", books[0]]
        assert CliRunner().invoke(app(), words).exit_code == 0
        found = condensed(said("", words, books[1]))
        compare("books", command, json.loads(json.dumps(found)))


@pytest.mark.parametrize("command", REFUSED)
def test_every_refusal_is_that_of_the_golden_file(
    books: tuple[str, dict[str, str]], places: dict[str, str], command: str
) -> None:
    """And nothing of it is written: the next test reads the same books."""
    words = [word.format(**places) for word in shlex.split(command)]
    result = CliRunner().invoke(app(), [*words, *(() if words[:2] == ["export", "check"] else ("--store", books[0]))])
    said = " ".join(f"{result.stdout} {result.exception}".split()).replace(places["out"], "OUT")
    assert isinstance(result.exception, LedgerError | SystemExit), said
    compare("books", f"refused: {command}", [result.exit_code, said])


def test_what_a_filter_may_name_is_that_of_the_golden_file(books: tuple[str, dict[str, str]]) -> None:
    found: dict[str, Any] = {}
    with open_store(books[0]) as store:
        for given in SUGGESTED:
            params = {"window": "2026-10", **dict(one.split("=", 1) for one in given.split("&"))}
            try:
                found[given] = suggestions(store, params, "Europe/Berlin", Then.now(UTC))
            except QueryError as error:
                found[given] = str(error)
    compare("books", "suggestions", condensed(found))


def test_when_months_end_and_costs_are_reached_is_that_of_the_golden_file(
    books: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the very instants, and a millisecond beside: a month's end and that of its grace, and a cost that is reached
    with an hour's last millisecond."""
    beside = [timedelta(milliseconds=n) for n in (-1, 0, 1)]
    found: dict[str, Any] = {}
    with open_store(books[0]) as store:
        now = books_of(store)
        assert now.current is not None
        for grace in (0, 3):
            card = now.current.card.model_copy(update={"grace_days": grace})
            changed = replace(now, current=replace(now.current, card=card))
            monkeypatch.setattr("billing.invoicing.month_states.books_of", lambda store, changed=changed: changed)
            for end in (SEPTEMBER.end, OCTOBER.end, OCTOBER.end + timedelta(days=grace)):
                for at in (end + one for one in beside):
                    states = [f"{one.name} {one.state} {one.invoices}" for one in month_states(store, at)]
                    found.setdefault(f"grace of {grace}: {', '.join(states)}", []).append(str(at))
        start = OCTOBER.start
        for tenant, project in (("chem", None), ("phys", "a"), ("bio", None)):
            ends = [start + timedelta(hours=hours) for hours in (7, 30, 200, 500)]
            costs = [one.known for one in cost_of_spans(store, [Span(tenant, start, end, project) for end in ends])]
            levels = [cost + more for cost in costs for more in (Fraction(0), Fraction(1, 10**9))]
            whole = Span(tenant, start, OCTOBER.end, project)
            reported = reached(store, [Target(whole, one) for one in levels])
            found[f"{tenant} {project}"] = [f"{one}: {at}" for one, at in zip(levels, reported, strict=True)]
    compare("books", "instants", found)


def test_the_golden_file_has_nothing_else() -> None:
    known = json.loads((FOLDER / "books.json").read_text(encoding="utf-8"))
    others = {
        "instants",
        "suggestions",
        "explained",
        "savings of workloads",
        *(f"refused: {command}" for command in REFUSED),
    }
    others |= {f"policies {number}" for number in range(POLICIES)}
    assert set(known) == {*COMMANDS, *others, *(f"table {table}" for table in TABLES)}


def test_no_close_leaves_a_working_table(books: tuple[str, dict[str, str]]) -> None:
    with open_store(books[0]) as store:
        assert store.rows("SELECT name FROM system.tables WHERE match(name, '^close_[0-9]+_')") == []


def test_a_mapping_that_leaves_nothing_out_is_a_yes(books: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text('rules: [{match: {queue: "*"}, tenant: all}]')
    result = CliRunner().invoke(app(), ["tenants", "check", str(path), "--store", books[0]])
    assert result.exit_code == 0, result.output
    assert "would change" in result.stdout
