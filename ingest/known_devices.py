"""The devices of a cluster as they were last reported: `GET /api/v1/records/devices?cluster=NAME`, as JSON lines.

For watchers without access to the store: they report when the devices of a node are unavailable, but only the node's
agent knows which devices those are. Reading them takes `inventory: true` (docs/agent.md) for that cluster.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.permissions import fits
from ingest.senders import Sender
from ingest.wire import CONTENT_TYPE, PATH, plain
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql


def known_devices(store: Store, cluster: str) -> list[dict[str, Any]]:
    return store.rows(read_sql(__file__, "known_devices"), {"cluster": cluster})


def known_devices_route(store: Store, sender: Callable[[Request], Awaitable[Sender]]) -> Route:
    """sender: who asks; it raises what refuses them."""

    async def answer(request: Request) -> Response:
        try:
            asking = await sender(request)
            cluster = request.query_params.get("cluster", "")
            if not asking.permissions.inventory or not fits(cluster, asking.permissions.clusters):
                raise HTTPException(
                    403, f"{asking.name} may not read the devices of {cluster!r}: inventory is not true"
                )
            rows = await asyncio.to_thread(known_devices, store, cluster)
        except HTTPException as refusal:
            return JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)
        except LedgerError as error:
            return JSONResponse({"error": str(error)[:500]}, 503, {"Retry-After": "5"})
        lines = "".join(json.dumps(plain(row), ensure_ascii=False) + "\n" for row in rows)
        return Response(lines, media_type=CONTENT_TYPE)

    return Route(f"{PATH}/devices", answer, methods=["GET"])
