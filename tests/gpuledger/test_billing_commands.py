"""`rates`, `ledger` and `invoice` as a user runs them, on a ledger typed here."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner, Result

from gpuledger.cli import build
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store, open_store

pytestmark = pytest.mark.usefixtures("engine_stays")

CARD = """
currency: EUR
timezone: Europe/Berlin
rates:
  - {sku: h100, match: {model: "H100"}, price_per_gpu_hour: "2.00", effective_from: 2026-01-01}
"""


class Shell:
    """The command line on one store."""

    def __init__(self, folder: Path) -> None:
        self.url = f"chdb://{folder}/store"
        self.app: typer.Typer = build()

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(self.app, [*arguments, "--store", self.url])
        if isinstance(result.exception, LedgerError):
            raise result.exception
        assert result.exception is None, result.exception
        return result


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A store with October closed: physics (two projects) and a tenant that tries to be HTML."""
    (tmp_path / "rates.yaml").write_text(CARD)
    fresh_store(tmp_path / "store", october).close()
    return Shell(tmp_path)


def october(store: Store) -> None:
    noon = at("2026-10-05 12:00")
    rows = [
        Row(noon, "physics", "qcd", used=str(HOUR_MS // 2), idle=str(HOUR_MS // 2)),
        Row(noon, "physics", "bsm", device="gpu-1", unmetered=HOUR_MS),
        Row(noon, "<script>", "研发一部", device="gpu-2", used=str(HOUR_MS)),
        Row(noon, device="gpu-3", unallocated=HOUR_MS),
    ]
    fill(store, rows, closed=[at("2026-11-01 00:00")])


def test_the_ledger_prints_json_csv_and_a_table(shell: Shell) -> None:
    asked = ("ledger", "--period", "2026-10", "--by", "tenant,project")
    document = json.loads(shell(*asked, "--format", "json").stdout)
    assert document["period"] == {
        "start": "2026-10-01T00:00:00.000Z", "end": "2026-11-01T00:00:00.000Z", "hours": 744, "closed_hours": 1,
        "closed_from": "2026-10-05T12:00:00.000Z", "closed_until": "2026-11-01T01:00:00.000Z",
        "checked_until": None,
    }  # fmt: skip
    assert [row["project"] for row in document["rows"]] == ["研发一部", "bsm", "qcd"]
    lines = shell(*asked, "--format", "csv").stdout.splitlines()
    assert lines[0].startswith("tenant,project,allocated_gpu_hours,used_gpu_hours,")
    assert lines[2].startswith("physics,bsm,1.000000000,")
    table = shell(*asked).stdout
    assert "total" in table
    assert "unallocated" in table


def test_a_rate_card_is_applied_once_and_listed(shell: Shell, tmp_path: Path) -> None:
    applied = shell("rates", "apply", str(tmp_path / "rates.yaml"), "--author", "o'brien", "--reason", "new year")
    assert "1 rate in EUR. Next: gpuledger close" in applied.stderr
    assert "in force already" in shell("rates", "apply", str(tmp_path / "rates.yaml")).stderr
    (rate,) = json.loads(shell("rates", "list", "--format", "json").stdout)
    assert (rate["sku"], rate["price_per_gpu_hour"], rate["effective_from"]) == (
        "h100",
        "2.00",
        "2025-12-31T23:00:00.000Z",
    )
    assert rate["tenant"] is None
    before = shell("rates", "history", "--format", "json").stdout
    (tmp_path / "twice.yaml").write_text(CARD + "currency: USD\n")
    with pytest.raises(LedgerError, match=r"twice.yaml, line 6: the key .currency. appears twice; its first line is 2"):
        shell("rates", "apply", str(tmp_path / "twice.yaml"))
    assert shell("rates", "history", "--format", "json").stdout == before


def test_before_a_rate_card_the_list_says_what_to_do(shell: Shell) -> None:
    assert "gpuledger rates apply FILE" in shell("rates", "list").stderr
    assert json.loads(shell("rates", "list", "--format", "json").stdout) == []


def test_drafts_and_invoices_say_how_many_claims_of_their_month_were_refused(shell: Shell, tmp_path: Path) -> None:
    refused = [
        ("2026-09-30 20:00", "2026-09-30 22:00"), ("2026-10-03 09:00", "2026-10-03 08:00"),
        ("2026-09-01 00:00", None), ("2026-10-31 22:59", "2026-11-03 00:00"), ("2026-10-31 23:00", None),
    ]  # fmt: skip
    rows = [{"reason": "unknown_device", "start_at": at(start), "end_at": end and at(end)} for start, end in refused]
    with open_store(shell.url) as store:
        store.insert("refused_claims", pa.Table.from_pylist(rows))
    shell("rates", "apply", str(tmp_path / "rates.yaml"))
    for command in ("draft", "issue"):
        said = shell("invoice", command, "--period", "2026-10").stderr
        why = f"(gpuledger doctor --store {shell.url} shows why)"
        assert f"3 claims of the month were refused and are on no invoice {why}" in said
    assert "refused" not in shell("invoice", "draft", "--period", "2026-10", "--tenant", "physics").stderr


def test_drafts_and_invoices_say_how_many_rows_that_nobody_could_read_may_be_of_their_month(
    shell: Shell, tmp_path: Path
) -> None:
    """As found: two jobs without their ends, which were in the quarantine, were billed for the whole month."""
    lost = {"record_type": "events", "source": "events.csv", "reason": "bad_value", "raw": "ended"}
    arrived = ["2026-09-30 21:59", "2026-09-30 22:00", "2026-11-02 08:00"]
    rows = [{**lost, "row": n, "quarantined_at": at(when)} for n, when in enumerate(arrived)]
    with open_store(shell.url) as store:
        store.insert("quarantine", pa.Table.from_pylist(rows))
    shell("rates", "apply", str(tmp_path / "rates.yaml"))
    for command in ("draft", "issue"):
        said = shell("invoice", command, "--period", "2026-10").stderr
        assert "2 rows that arrived since 2026-09-30T22:00Z are in the quarantine and may be of the month" in said
    assert "quarantine" not in shell("invoice", "draft", "--period", "2026-10", "--tenant", "physics").stderr


def test_invoices_are_drafted_issued_shown_and_listed(shell: Shell, tmp_path: Path) -> None:
    october = ("--period", "2026-10")
    (draft,) = json.loads(shell("invoice", "draft", *october, "--tenant", "physics", "--format", "json").stdout)
    assert (draft["number"], draft["totals"]["amount"]) == (None, "4.00")
    with pytest.raises(LedgerError, match="no rate card is in force"):
        shell("invoice", "issue", *october)
    shell("rates", "apply", str(tmp_path / "rates.yaml"))
    assert "2 invoices issued" in shell("invoice", "issue", *october).stderr
    again = shell("invoice", "issue", *october, "--format", "csv")
    assert "0 invoices issued, 2 were issued already" in again.stderr
    assert again.stdout.splitlines()[1].startswith("GL-2026-00001,issued,<script>,")
    listed = json.loads(shell("invoice", "list", "--format", "json").stdout)
    assert [(one["number"], one["tenant"], one["total"]) for one in listed] == [
        ("GL-2026-00001", "<script>", "2.00"),
        ("GL-2026-00002", "physics", "4.00"),
    ]
    page = shell("invoice", "show", "GL-2026-00001", "--format", "html").stdout
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "研发一部" in page
    table = shell("invoice", "show", "GL-2026-00002").stdout
    assert "qcd" in table
    assert "total" in table
    shell("invoice", "show", *october, "--out", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").iterdir())) == 8
    with pytest.raises(LedgerError, match="no such invoice"):
        shell("invoice", "show", "GL-2026-00003")


def test_a_statement_is_a_table_files_or_one_document(shell: Shell, tmp_path: Path) -> None:
    october = ("invoice", "statement", "--period", "2026-10")
    table = shell(*october).stdout
    assert "physics" in table
    assert "platform" in table
    assert [line.split()[-4:] for line in table.splitlines() if "qcd" in line] == [["0.50", "0.00", "50.0%", "2.00"]]
    tenant, platform = json.loads(shell(*october, "--format", "json").stdout)[1:]
    assert [day["allocated_gpu_hours"] for day in tenant["days"] if day["day"] == "2026-10-05"] == ["2.000000000"]
    assert platform["totals"]["unallocated_gpu_hours"] == "1.000000000"
    assert "9 files" in shell(*october, "--out", str(tmp_path / "out")).stderr
    assert shell(*october, "--tenant", "physics", "--format", "pdf").stdout_bytes.startswith(b"%PDF")
    with pytest.raises(LedgerError, match="3 statements are not one document"):
        shell(*october, "--format", "pdf")
    with pytest.raises(LedgerError, match="a statement is no table of lines"):
        shell(*october, "--format", "csv")


def test_an_invoice_as_pdf_goes_to_the_pipe(shell: Shell) -> None:
    shown = shell("invoice", "draft", "--period", "2026-10", "--tenant", "physics", "--format", "pdf")
    assert shown.stdout_bytes.startswith(b"%PDF")
    assert shown.stdout_bytes.rstrip().endswith(b"%%EOF")


def test_parties_are_applied_listed_and_on_the_next_document(shell: Shell, tmp_path: Path) -> None:
    assert "no parties yet" in shell("invoice", "parties", "list").output
    assert json.loads(shell("invoice", "parties", "list", "--format", "json").stdout) == []
    file = tmp_path / "parties.yaml"
    file.write_text(
        "seller: [{name: RZ, address: [Here], bank: {holder: RZ, iban: DE89370400440532013000}}]\n"
        "buyers: [{tenant: physics, name: Institute, purchase_order: '7', effective_from: 2026-10-01}]\n"
    )
    said = shell("invoice", "parties", "apply", str(file), "--author", "ada").output
    assert "are in force: a seller, 1 buyer. Next: gpuledger invoice draft" in said
    assert "are in force already, since" in shell("invoice", "parties", "apply", str(file)).output
    rows = json.loads(shell("invoice", "parties", "list", "--format", "json").stdout)
    assert [(row["role"], row["name"], row["purchase_order"], row["effective_from"]) for row in rows] == [
        ("seller", "RZ", "", None),
        ("buyer", "Institute", "7", "2026-10-01"),
    ]
    file.write_text(file.read_text().replace("DE89", "DE88"))
    with pytest.raises(LedgerError, match=r"seller\[0\].bank.iban: found 'DE88.*its check digits are wrong"):
        shell("invoice", "parties", "apply", str(file))
    shell("rates", "apply", str(tmp_path / "rates.yaml"))
    draft = json.loads(
        shell("invoice", "draft", "--period", "2026-10", "--tenant", "physics", "--format", "json").stdout
    )
    (one,) = draft if isinstance(draft, list) else [draft]
    assert one["parties"]["buyer"]["name"] == "Institute"
    shell("invoice", "issue", "--period", "2026-10", "--tenant", "physics")
    shown = " ".join(shell("invoice", "show", "--period", "2026-10").output.split())
    assert "price from 1 January 2026 on" in shown
    assert "RZ to Institute, Purchase order 7, Tenant physics" in shown
    assert "To: RZ Account: IBAN DE89 3704 0044 0532 0130 00 Reference: GL-" in shown
