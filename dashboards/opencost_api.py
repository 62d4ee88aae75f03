"""OpenCost's allocation API over the ledger: `GET /allocation` and `/allocation/compute`, for tools that read it.

Errors are OpenCost's: {"code", "message"}.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from billing.ledger_report import billing_timezone
from billing.opencost.allocation import allocations
from billing.opencost.document import error, response
from billing.opencost.query import parse_query
from billing.opencost.words import QueryError
from dashboards.access.current import current
from dashboards.access.roles import Action
from dashboards.access.scope import Stores
from warehouse.errors import LedgerError
from warehouse.store import Store

log = logging.getLogger(__name__)
PATHS = ("/allocation", "/allocation/compute")


def add_routes(server: FastAPI, stores: Stores) -> None:
    """Adds the routes; the store is asked on worker threads, as whoever asks may see it."""

    def scoped(params: dict[str, str]) -> tuple[int, dict[str, Any]]:
        current().require(Action.see)
        with stores.lend(current()) as store:
            return answer(store, params, datetime.now(UTC))

    async def compute(request: Request) -> JSONResponse:
        code, document = await asyncio.to_thread(scoped, dict(request.query_params))
        return JSONResponse(document, status_code=code)

    for path in PATHS:
        server.add_api_route(path, compute, methods=["GET"])


def answer(store: Store, params: dict[str, str], now: datetime) -> tuple[int, dict[str, Any]]:
    """The status and the document for the parameters."""
    try:
        document = response(allocations(store, parse_query(params, billing_timezone(store), now)))
    except QueryError as wrong:
        return 400, error(400, str(wrong))
    except LedgerError as trouble:
        return 500, error(500, str(trouble))
    except Exception:  # a tool gets a document, the log has the details
        log.exception("an allocation query failed: %s", params)
        return 500, error(500, "an error of gpuledger's own; its log has the details")
    return 200, document
