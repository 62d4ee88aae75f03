"""Reports by mail: their figures and looks, when they are due, and that they arrive once at a real mail server."""

from __future__ import annotations

import email
import email.policy
import re
import shutil
import struct
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope
from typer.testing import CliRunner, Result

from billing.accounts.budgets import State
from billing.periods import parse_period, period_before
from dashboards.languages import language
from dashboards.reports import schedule as schedules
from dashboards.reports.pages import PIXELS_PER_INCH, as_html, as_text, chart
from dashboards.reports.periodic import reporting, send_due
from dashboards.reports.report import Report, ReportError, tenant_report
from dashboards.reports.schedule import Schedule, due, last_period, load_schedule, wanted_by
from gpuledger.cli import build
from tests.alerts.receivers import Received, smtp_receiver
from tests.dashboards.site import fill
from tests.draws import seldom
from tests.patience import until
from tests.ports import free_port
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store, open_store

pytestmark = pytest.mark.usefixtures("engine_stays")

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
EN, ZH = language("en"), language("zh")
OCTOBER = parse_period("2026-10", "UTC")
OF_SPEECH = ("speech", "GPU-b", "K-4711")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of October: vision held a GPU for 96 EUR and speech one for 72, both half used."""
    path = tmp_path_factory.mktemp("books") / "store"
    fresh_store(path, fill).close()
    return path


@pytest.fixture
def store(folder: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of it."""
    shutil.copytree(folder, tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path / 'store'}") as opened:
        yield opened


@pytest.fixture(scope="module")
def october(folder: Path) -> Report:
    """What is reported to vision of October."""
    with open_store(f"chdb://{folder}") as opened:
        return tenant_report(opened, "vision", OCTOBER, NOW)


def schedule(received: Received | None = None, tenant: str = "*", every: str = "month", **more: object) -> Schedule:
    smtp = {"host": "127.0.0.1", "port": received.port if received else 25, "security": "none", "from": "us@site.org"}
    wanted = {"tenant": tenant, "every": every, "to": ["lead@site.org", "cfo@site.org"]}
    return Schedule.model_validate({"smtp": smtp, "reports": [wanted], **more})


def parsed(text: str | bytes) -> EmailMessage:
    raw = text if isinstance(text, bytes) else text.encode()
    return cast("EmailMessage", email.message_from_bytes(raw, policy=email.policy.default))


def test_a_report_says_what_the_books_say_of_the_tenant_and_nothing_of_others(october: Report) -> None:
    made = october
    assert (made.title(EN), made.title(ZH)) == ("October 2026", "2026年10月")
    assert (made.currency, made.before) == ("EUR", None)
    assert (made.total["billed_cost"], made.total["used_gpu_hours"], made.total["idle_gpu_hours"]) == (96, 24, 24)
    assert [row["project"] for row in made.projects] == ["p-vision"]
    assert [row["workload"] for row in made.workloads] == ["w-vision"]
    assert [one.amount for one in made.budgets] == [100]
    assert [day["used_gpu_hours"] for day in made.days[:3]] == ["12.000000000", "12.000000000", "0.000000000"]
    english = (
        "vision: October 2026",
        "96.00 EUR",
        "Efficiency 50.0%",
        "96.00 EUR of 100.00 EUR in October 2026, close to",
    )
    chinese = (
        "vision: 2026年10月",
        "96.00 EUR",
        "效率为已计量时间的 50.0%",
        "2026年10月预算 100.00 EUR，已花费 96.00 EUR，接近上限",
    )
    for spoken, expected in ((EN, english), (ZH, chinese)):
        text, html = as_text(made, spoken), as_html(made, spoken, "cid:chart")
        for words in expected:
            assert words in text
            assert words in html
        assert f'<html lang="{spoken.code}">' in html
        assert not any(word in text + html for word in OF_SPEECH)
        assert not any(word in html for word in ("<script", "http:", "https:", "url("))
        assert chart(made, spoken).startswith(b"\x89PNG\r\n")
    line = "p-vision: 48.00 GPU-hours, efficiency 50.0%, cost of idle time 48.00 EUR, cost 96.00 EUR"
    assert f"\nProjects\n  {line}\n" in as_text(made, EN)
    (budget,) = made.budgets
    for spoken in (EN, ZH):
        texts = {as_text(replace(made, budgets=[replace(budget, state=state)]), spoken) for state in State}
        assert len(texts) == len(State)
    bare = replace(made, workloads=[{**row, "project": ""} for row in made.workloads])
    assert "w-vision (p-vision): " in as_text(made, EN) and "w-vision: " in as_text(bare, EN)
    assert as_text(replace(made, tenant="a\x1b[2K\nb"), EN).startswith(r"a\x1b[2K\nb: ")


def test_a_week_is_compared_with_the_week_before_and_says_what_is_not_known(store: Store) -> None:
    empty_week = tenant_report(store, "vision", parse_period("2026-10-12..2026-10-19", "UTC"), NOW)
    assert (empty_week.title(EN), empty_week.title(ZH)) == ("12 – 18 October 2026", "2026年10月12日 – 18日")
    assert empty_week.total["billed_cost"] == 0
    assert empty_week.before is not None
    later = tenant_report(store, "vision", parse_period("2026-10-28..2026-11-04", "UTC"), NOW)
    assert later.title(ZH) == "2026年10月28日 – 2026年11月3日"
    note = "The books are closed only from 28 October 2026 00:00 to 1 November 2026 00:00 (UTC); the rest is unknown."
    assert as_text(later, EN).endswith(f"\n\n{note}\n")
    assert "账本仅在 2026年10月28日 00:00 至\u00a02026年11月1日 00:00（UTC）之间已结账" in as_html(
        later, ZH, "cid:chart"
    )
    assert later.days[-1]["used_gpu_hours"] is None
    with pytest.raises(ReportError, match="nothing of it is closed"):
        tenant_report(store, "vision", parse_period("2026-12", "UTC"), NOW)


def test_a_report_says_what_idle_policies_gave_back(october: Report) -> None:
    assert october.given_back is None
    sums = {"gpu_hours": "551.000000000", "unpriced_gpu_hours": "1.500000000", "cost": "1708.100000000"}
    made = replace(october, given_back={**sums, "at_most": {**sums, "gpu_hours": "540.0"}, "reclaims": [{}, {}]})
    note = "Given back by idle policies (2): 551.00 GPU-hours that would have cost 1,708.10 EUR"
    note += ", not included in any amount above"
    assert f"{note}; 540.00 of" in as_text(made, EN)
    assert "1.50 of these GPU-hours have no price and are not included in any cost." in as_text(made, EN)
    assert "其中 540.00 是上限" in as_html(made, ZH, "cid:chart")
    unknown = {**sums, "unpriced_gpu_hours": "551.0", "cost": None, "at_most": None, "reclaims": [{}]}
    text = as_text(replace(october, given_back=unknown), EN)
    assert "would have cost unknown, not included in any amount above; 0.00 of" in text


def test_a_report_links_to_the_pages_of_its_tenant_and_period(october: Report) -> None:
    assert "href" not in as_html(october, EN, "cid:chart")
    page = "https://gpu.site.org/tenants?period=2026-10&tenant=a%26b"
    made = replace(october, tenant="a&b")
    text, html = (show(made, "https://gpu.site.org/") for show in (_text, _html))
    assert f"\nOpen in gpuledger: {page}&lang=en\nChanges: https://gpu.site.org/changes?period=2026-10" in text
    for link in (page, f"{page}&project=p-vision", page.replace("tenants", "workloads") + "&workload=w-vision"):
        assert f'href="{link}&lang=en"'.replace("&", "&amp;") in html
    week = replace(october, period=parse_period("2026-10-12..2026-10-19", "Europe/Berlin"), timezone="Europe/Berlin")
    assert "?period=2026-10-12..2026-10-19&tenant=vision" in _text(week, "http://gpu")


def _text(report: Report, address: str) -> str:
    return as_text(report, EN, address)


def _html(report: Report, address: str) -> str:
    return as_html(report, EN, "cid:chart", address)


def test_a_name_is_text_not_markup(october: Report) -> None:
    bad = "<img src=x> & 'q'"
    html = as_html(replace(october, tenant=bad), EN, "cid:chart")
    assert "<img src=x>" not in html
    assert "&lt;img src=x&gt; &amp; &#39;q&#39;: October 2026" in html


@pytest.mark.parametrize(
    ("every", "now", "expected"),
    [
        ("month", "2026-11-01T07:00+01:00", "2026-09"),  # before eight o'clock of the day after
        ("month", "2026-11-01T08:00+01:00", "2026-10"),
        ("month", "2026-11-30T23:00+01:00", "2026-10"),
        ("week", "2026-10-26T08:00+01:00", "2026-10-19..2026-10-26"),  # the clocks went back on Sunday
        ("week", "2026-10-26T07:59+01:00", "2026-10-12..2026-10-19"),
        ("week", "2026-11-01T12:00+01:00", "2026-10-19..2026-10-26"),
    ],
)
def test_the_last_week_and_month_are_local(every: str, now: str, expected: str) -> None:
    at = schedule().at
    found = last_period(every, datetime.fromisoformat(now), "Europe/Berlin", at)  # type: ignore[arg-type]
    assert found == parse_period(expected, "Europe/Berlin")


def test_the_period_before_a_month_is_a_month_and_before_a_week_a_week() -> None:
    for text, before in (
        ("2026-03", "2026-02"), ("2026-10-26..2026-11-02", "2026-10-19..2026-10-26"), ("2026-11-02", "2026-11-01"),
        ("2026-11-21T19:00..2026-11-28T19:00", "2026-11-14T19:00..2026-11-21T19:00"),
    ):  # fmt: skip
        found = period_before(parse_period(text, "Europe/Berlin"), "Europe/Berlin")
        assert found == parse_period(before, "Europe/Berlin")


def test_what_is_due_is_sent_once_to_whom_it_is_for(store: Store) -> None:
    with smtp_receiver() as received:
        asked = schedule(received)
        assert [one.tenant for one in due(store, asked, NOW)] == ["speech", "vision"]
        assert send_due(store, asked, NOW) == (2, 0)
        assert send_due(store, asked, NOW + timedelta(days=3)) == (0, 0)
    assert len(received.mails) == 2
    mail = parsed(received.mails[1])
    assert (mail["To"], mail["From"]) == ("lead@site.org, cfo@site.org", "us@site.org")
    assert mail["Subject"] == "[gpuledger] vision: October 2026"
    kinds = [part.get_content_type() for part in mail.walk()]
    assert kinds == ["multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png"]
    page, image = (part for part in mail.walk() if part.get_content_type() in ("text/html", "image/png"))
    assert f"cid:{image['Content-ID'].strip('<>')}" in page.get_content()
    assert image.get_content().startswith(b"\x89PNG")
    assert not any(word in str(part.get_content()) for part in (page,) for word in OF_SPEECH)


def test_columns_stand_under_each_other_also_in_chinese(october: Report) -> None:
    for words in (EN, ZH):
        rows = as_text(october, words).split("\n\n")[2].splitlines()[:3]
        places = [columns(row.partition(words("report.hours"))[0]) for row in rows]
        assert len(set(places)) == 1, rows


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def test_a_chart_is_legible_on_a_phone_and_no_larger_than_its_text_on_a_screen(october: Report) -> None:
    """A phone of 390 px has 310 for it within the page's margins: three quarters of its own width at least."""
    width, _ = struct.unpack(">II", chart(october, EN)[16:24])  # of a PNG's header
    own = width * 96 / PIXELS_PER_INCH
    (most,) = re.findall(r'class="chart" [^>]*max-width:(\d+)px', as_html(october, EN, "cid:chart"))
    assert own <= 310 / 0.75
    assert own <= int(most) <= 1.25 * own


def test_a_chart_is_in_the_reader_s_language(october: Report) -> None:
    assert chart(october, ZH) != chart(october, EN)


def test_a_mail_in_the_reader_s_language_arrives_at_a_mail_server(store: Store) -> None:
    class Mailbox:
        def __init__(self) -> None:
            self.mails: list[bytes] = []

        async def handle_DATA(self, server: object, session: object, envelope: Envelope) -> str:
            self.mails.append(cast("bytes", envelope.content))
            return "250 kept"

    mailbox = Mailbox()
    port = free_port()
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        smtp = {"host": "127.0.0.1", "port": port, "security": "none", "from": "us@site.org"}
        wanted = [{"tenant": "vision", "every": "month", "to": ["a@site.org"]},
                  {"tenant": "vision", "every": "month", "to": ["b@site.org"], "language": "en"}]  # fmt: skip
        asked = Schedule.model_validate({"smtp": smtp, "language": "zh", "reports": wanted})
        assert send_due(store, asked, NOW) == (2, 0)
    finally:
        controller.stop()
    chinese, english = map(parsed, mailbox.mails)
    assert (chinese["To"], chinese["Content-Language"]) == ("a@site.org", "zh")
    assert (chinese["Subject"], english["Subject"]) == (
        "[gpuledger] vision：2026年10月",
        "[gpuledger] vision: October 2026",
    )
    text = chinese.get_body(("plain",))
    assert text is not None
    assert "使用" in text.get_content()
    assert "GPU 小时" in text.get_content()


def test_who_has_a_report_does_not_get_it_again_because_somebody_is_added(store: Store) -> None:
    """As found: whoever changed a list of recipients sent last month's report to all of them again."""
    with smtp_receiver() as received:
        for to, gets in (
            (["lead@site.org"], "lead@site.org"),
            (["lead@site.org", "cfo@site.org"], "cfo@site.org"),
            (["cfo@site.org"], ""),
        ):
            asked = schedule(received, tenant="vis*")
            asked = asked.model_copy(update={"reports": (asked.reports[0].model_copy(update={"to": tuple(to)}),)})
            assert [", ".join(one.left) for one in due(store, asked, NOW)] == ([gets] if gets else [])
            assert send_due(store, asked, NOW) == (1 if gets else 0, 0)
    assert len(received.mails) == 2


def test_who_is_named_twice_gets_one_mail_and_each_language_one_of_its_own() -> None:
    smtp = {"host": "h", "from": "us@site.org"}
    reports = [{"tenant": "v*", "every": "week", "to": ["a@b.c"], "language": "zh"},
               {"tenant": "vision", "every": "month", "to": ["a@b.c", "d@e.f"]}]  # fmt: skip
    asked = Schedule.model_validate({"smtp": smtp, "reports": reports})
    assert [(one.to, one.language) for one in wanted_by(asked, "vision")] == [(("a@b.c",), "zh"), (("d@e.f",), "en")]
    assert [(one.to, one.language) for one in wanted_by(asked, "vision", code="zh")] == [(("a@b.c", "d@e.f"), "zh")]
    with pytest.raises(ReportError, match="Available: en, zh"):
        wanted_by(asked, "vision", code="fr")


def test_what_the_mail_server_refuses_is_tried_again(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with smtp_receiver() as received:
        received.answers[:] = [451, 451]
        asked = schedule(received, tenant="vis*")
        assert send_due(store, asked, NOW) == (0, 1)
        assert "report vision 2026-10-01..2026-11-01 to lead@site.org, cfo@site.org was not sent" in caplog.text
        assert send_due(store, asked, NOW) == (1, 0)


def test_who_refuses_a_report_gets_it_alone_again_until_it_is_given_up(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "GIVES_UP", 2)
    with smtp_receiver() as received:
        asked = schedule(received, tenant="vis*")
        received.refusing = {"<cfo@site.org>": 550}
        assert send_due(store, asked, NOW) == (0, 1)
        assert "cfo@site.org answered 550 no such mailbox here; sent to lead@site.org" in caplog.text
        assert [one.left for one in due(store, asked, NOW)] == [("cfo@site.org",)]
        assert send_due(store, asked, NOW) == (0, 1)
        assert send_due(store, asked, NOW) == (0, 0)
    assert len(received.mails) == 1
    (finding,) = store.rows("SELECT message FROM findings WHERE finding = 'delivery_refused'")
    assert "is not sent to cfo@site.org, for it was refused 2 times" in finding["message"]


def test_nothing_is_due_before_the_books_are_closed_nor_of_the_past(store: Store) -> None:
    assert not list(due(store, schedule(), datetime(2026, 12, 1, 9, tzinfo=UTC)))
    assert not list(due(store, schedule(), datetime(2026, 10, 31, 9, tzinfo=UTC)))
    assert not list(due(store, schedule(every="week"), NOW))  # its last day is not closed
    assert not list(due(store, schedule(tenant="visio"), NOW))


def test_the_server_sends_what_is_due_while_it_serves(store: Store, tmp_path: Path) -> None:
    with smtp_receiver() as received:
        path = tmp_path / "reports.yaml"
        path.write_text(schedule_text(received, "week"))
        close_until_now(store)
        with reporting(store, path):
            until(lambda: received.mails)
    (mail,) = received.mails
    assert parsed(mail)["To"] == "lead@site.org"


def close_until_now(store: Store) -> None:
    """Last week's books are closed to its end, and `vision` held something."""
    store.command(
        "INSERT INTO closed_hours (hour, run, checked_by, inputs, content) "
        "SELECT toStartOfHour(now('UTC')) - INTERVAL number HOUR AS at, 1, 1, 0, 1 FROM numbers(24 * 16) "
        "WHERE at NOT IN (SELECT hour FROM closed_hours)"
    )
    store.command(
        "INSERT INTO ledger_entries (run, hour, device_id, device_units, units, tenant, allocation_id, "
        "used_unit_ms, charge_period_start, charge_period_end) SELECT 1, hour, 'GPU-a', 1, 1, 'vision', 'later', "
        "3600000, hour, hour + INTERVAL 1 HOUR FROM closed_hours WHERE run = 1"
    )


def schedule_text(received: Received, every: str) -> str:
    return (
        f"smtp: {{host: 127.0.0.1, port: {received.port}, security: none, from: us@site.org}}\n"
        f"reports: [{{tenant: vision, every: {every}, to: [lead@site.org]}}]\n"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not a schedule of reports"),
        ("smtp: {host: h, from: a@b}\nreports: []", "reports: "),
        ("smtp: {host: h}\nreports: [{tenant: x, every: week, to: [a@b.c]}]", "from"),
        (
            "smtp: {host: h, from: a@b, to: [c@d]}\nreports: [{tenant: x, every: week, to: [a@b.c]}]",
            "needs a recipient",
        ),
        ("smtp: {host: h, from: a@b}\nreports: [{tenant: x, every: year, to: [a@b.c]}]", "reports[0].every"),
        ("smtp: {host: h, from: a@b}\nreports: [{tenant: x, every: week, to: [nobody]}]", "reports[0].to[0]"),
        (
            "smtp: {host: h, from: a@b}\nlanguage: fr\nreports: [{tenant: x, every: week, to: [a@b.c]}]",
            "there are en, zh",
        ),
        ("smtp: {host: h, from: a@b}\nreports: [{tenant: x, each: week, to: [a@b.c]}]", "reports[0]"),
    ],
)
def test_a_schedule_of_no_use_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "reports.yaml"
    path.write_text(text)
    with pytest.raises(ReportError) as error:
        load_schedule(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_clock_may_be_written_without_quotes() -> None:
    assert schedule(at=450).at.isoformat() == "07:30:00"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["report", *arguments])


@seldom(6, "the command previews and sends")
def test_the_command_previews_and_sends(folder: Path, tmp_path: Path) -> None:
    where = ("--store", f"chdb://{folder}")
    october = ("--tenant", "vision", "--period", "2026-10")
    shown = run("preview", *october, *where)
    assert shown.exit_code == 0, shown.output
    assert "96.00 EUR" in shown.stdout
    assert "工作负载" in run("preview", *october, *where, "--language", "zh").stdout
    assert "Available: en, zh" in str(run("preview", *october, *where, "--language", "fr").exception)
    out = tmp_path / "report.html"
    assert run("preview", *october, *where, "--out", str(out)).exit_code == 0
    assert 'src="data:image/png;base64,iVBOR' in out.read_text(encoding="utf-8")
    with smtp_receiver() as received:
        path = tmp_path / "reports.yaml"
        path.write_text(schedule_text(received, "month"))
        given = (*where, "--reports", str(path))
        assert run("send", *october, *given).exit_code == 0
        assert run("send", *october, "--to", "me@site.org", *given).exit_code == 0
        assert [parsed(mail)["To"] for mail in received.mails] == ["lead@site.org", "me@site.org"]
        assert "nothing is due" in run("send", *given).stderr
        received.answers[:] = [550]
        failed = run("send", *october, "--to", "me@site.org", *given)
    assert failed.exit_code == 1, failed.output
    assert "2026-10-01..2026-11-01 to me@site.org: was not sent: me@site.org answered 550" in failed.stderr
    for arguments, says in (
        ((*october[:2], *given), "go together"),
        (("--tenant", "speech", "--period", "2026-10", *given), "the file has no recipient"),
        ((*october, *where, "--reports", "/nowhere.yaml"), "cannot be read"),
    ):
        refused = run("send", *arguments)
        assert isinstance(refused.exception, LedgerError), refused.output
        assert says in str(refused.exception)


def test_a_tenant_that_nobody_knows_has_no_report(folder: Path) -> None:
    preview = run("preview", "--tenant", "vison", "--period", "2026-10", "--store", f"chdb://{folder}")
    assert "tenant 'vison': has no allocations and no budget" in str(preview.exception)


def test_the_command_sends_what_is_due_and_says_whether_all_of_it_went_out(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path / 'store'}") as store:
        close_until_now(store)
    with smtp_receiver() as received:
        path = tmp_path / "reports.yaml"
        path.write_text(schedule_text(received, "week"))
        given = ("--store", store.url, "--reports", str(path))
        received.answers[:] = [451]
        for code, says in ((1, "0 sent, 1 failed"), (0, "1 sent, 0 failed"), (0, "nothing is due")):
            done = run("send", *given)
            assert (done.exit_code, done.stderr.splitlines()[-1]) == (code, says)
