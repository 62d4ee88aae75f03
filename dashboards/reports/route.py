"""A tenant's report as it would be mailed."""

from __future__ import annotations

import base64
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from api.caller import Caller, See
from api.routes.invoices import DOCUMENT_POLICY
from api.strict import StrictRoute
from billing.ledger_report import billing_timezone
from billing.periods import parse_period
from dashboards.languages import language
from dashboards.reports.pages import as_html, as_text, chart
from dashboards.reports.report import Report, tenant_report

router = APIRouter(tags=["reports"], route_class=StrictRoute)
MEDIA = {"text": "text/plain; charset=utf-8", "html": "text/html; charset=utf-8"}


@router.get("/report", response_class=Response, responses={200: {"content": {m: {} for m in MEDIA.values()}}})
def report(
    caller: See,
    tenant: str,
    period: Annotated[str, Query(description="A month (2026-10), a day or START..END, in the billing time zone.")],
    format: Annotated[Literal["text", "html"], Query()] = "text",
    code: Annotated[Literal["en", "zh"], Query(alias="language")] = "en",
) -> Response:
    """A tenant's week or month; sent to nobody."""
    words, made = language(code), _made(caller, tenant, period)
    if format == "text":
        return Response(as_text(made, words), media_type=MEDIA[format])
    image = f"data:image/png;base64,{base64.b64encode(chart(made, words)).decode()}"
    policy = {"Content-Security-Policy": DOCUMENT_POLICY}
    return Response(as_html(made, words, image), media_type=MEDIA[format], headers=policy)


def _made(caller: Caller, tenant: str, period: str) -> Report:
    caller.check_tenant(tenant)
    with caller.whole_store() as store:  # the report makes the tenant's own scope over it
        return tenant_report(store, tenant, parse_period(period, billing_timezone(store)), caller.now)
