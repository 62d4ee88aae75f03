"""OpenCost's allocation API over the ledger, at OpenCost's paths and, under `/model`, at Kubecost's: for tools that
read them (kubectl-cost, OpenCost's own page).

Errors are OpenCost's: {"code", "message"}; also for what OpenCost answers and the ledger does not hold (assets, cloud
cost, predictions).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from access.current import current
from access.roles import Action
from access.scope import Stores
from billing.ledger_report import billing_timezone
from billing.opencost.allocation import allocations
from billing.opencost.document import error, response, success
from billing.opencost.query import parse_query
from billing.opencost.suggestions import suggestions
from billing.opencost.words import QueryError
from billing.rates.applied import current_rate_card
from warehouse.errors import LedgerError
from warehouse.store import Store

log = logging.getLogger(__name__)
PREFIX = "/model"
Answer = Callable[[Store, dict[str, str], datetime], dict[str, Any]]


def _allocation(store: Store, params: dict[str, str], now: datetime) -> dict[str, Any]:
    return response(allocations(store, parse_query(params, billing_timezone(store), now)))


def _autocomplete(store: Store, params: dict[str, str], now: datetime) -> dict[str, Any]:
    return success({"data": suggestions(store, params, billing_timezone(store), now)})


def _configs(store: Store, params: dict[str, str], now: datetime) -> dict[str, Any]:
    """Of Kubecost's settings the one that readers need to print an amount."""
    applied = current_rate_card(store)
    return success({"currencyCode": applied.card.currency if applied else ""})


ANSWERS: dict[str, Answer] = {
    "/allocation": _allocation,
    "/allocation/compute": _allocation,
    "/allocation/autocomplete": _autocomplete,
    "/getConfigs": _configs,
}
PATHS = tuple(prefix + path for path in ANSWERS for prefix in ("", PREFIX))
OTHERS = ("/assets", "/cloudCost", "/customCost", "/clusterInfo", "/costDataModel", "/prediction")
"""What OpenCost answers besides at its root."""
REST = (
    PREFIX, PREFIX + "/{path:path}", "/allocation/{path:path}", *OTHERS,
    *(path + "/{path:path}" for path in OTHERS if path != "/assets"),
)  # fmt: skip
"""Whatever else is asked at these paths: a tool gets a document that says no, not a page. Files of the pages lie below
`/assets/`."""


def add_routes(server: FastAPI, stores: Stores) -> None:
    """Adds the routes; the store is queried on worker threads, within the caller's scope."""

    def scoped(ask: Answer, params: dict[str, str]) -> tuple[int, dict[str, Any]]:
        current().require(Action.see)
        with stores.scoped_to(current()) as store:
            return answer(ask, store, params, datetime.now(UTC))

    def route(ask: Answer) -> Callable[[Request], Any]:
        async def reply(request: Request) -> JSONResponse:
            code, document = await asyncio.to_thread(scoped, ask, dict(request.query_params))
            return JSONResponse(document, status_code=code)

        return reply

    for path, ask in ANSWERS.items():
        for prefix in ("", PREFIX):
            server.add_api_route(prefix + path, route(ask), methods=["GET"])

    async def unknown() -> JSONResponse:
        known = ", ".join(PREFIX + one for one in ANSWERS)
        return JSONResponse(error(404, f"not available here. Available: {known}"), status_code=404)

    for path in REST:
        server.add_api_route(path, unknown, methods=["GET"])


def answer(ask: Answer, store: Store, params: dict[str, str], now: datetime) -> tuple[int, dict[str, Any]]:
    """The status and the document for the parameters."""
    try:
        document = ask(store, params, now)
    except QueryError as wrong:
        return 400, error(400, str(wrong))
    except LedgerError as trouble:
        return 500, error(500, str(trouble))
    except Exception:  # a tool gets a document, the log has the details
        log.exception("an allocation query failed: %s", params)
        return 500, error(500, "an internal error; its log has the details")
    return 200, document
