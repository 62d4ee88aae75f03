"""A report as a mail: text, HTML, and the chart that the HTML shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from dashboards.languages import Language
from dashboards.reports.pages import as_html, as_text, chart
from dashboards.reports.report import Report
from warehouse.printable import printable


def message(
    report: Report, words: Language, sender: str, to: Sequence[str], now: datetime, address: str = ""
) -> EmailMessage:
    """The mail, in a language. address: where people open gpuledger, for its links.

    Errors: LedgerError if the chart cannot be drawn.
    """
    mail = EmailMessage()
    domain = sender.rpartition("@")[2].rstrip(">") or "localhost"
    mail["From"], mail["To"], mail["Date"] = sender, ", ".join(to), format_datetime(now)
    subject = f"[gpuledger] {report.tenant}{words('part.colon')}{report.title(words)}"
    mail["Subject"] = printable(" ".join(subject.split()))[:200]
    mail["Message-ID"], mail["Auto-Submitted"] = make_msgid("gpuledger", domain), "auto-generated"
    image = make_msgid("chart", domain)
    mail.set_content(as_text(report, words, address))
    mail.add_alternative(as_html(report, words, f"cid:{image[1:-1]}", address), subtype="html")
    page = mail.get_body(("html",))
    assert page is not None
    page.add_related(chart(report, words), "image", "png", cid=image, filename="gpu-hours-by-day.png")
    mail["Content-Language"] = words.code  # at the end: what comes before the parts goes to the first of them
    return mail
