"""The HTTP API of the scheduler. The `detail` of a refused request says what is needed.

POST /api/v1/jobs                      submit            GET  /api/v1/jobs?status=&queue=    list
GET  /api/v1/jobs/{id}                 explain
POST /api/v1/jobs/{id}/cancel | hold | release | suspend | resume | renew
POST /api/v1/jobs/{id}/reclaim         an operator's yes to what the policy says of a job that is idle
POST /api/v1/jobs/{id}/propose         proposes that instead, for an operator to say yes to
POST /api/v1/jobs/{id}/keep            exempts the running attempt from that; one that was made smaller may grow again
GET  /api/v1/idle                      running jobs that are idle, and what happens next
POST /api/v1/jobs/{id}/rescale         {"min_replicas": 2, "max_replicas": 8}, or one of them
POST /api/v1/jobs/{id}/finish          {"succeeded": true}: reported by whoever runs it
POST /api/v1/jobs/{id}/ready           a service's replica serves from now on
GET  /api/v1/room/{id}                 what to move so that it fits: a proposal
GET  /api/v1/pools                     what each pool has, by model: allocated, available, reserved, unavailable
GET  /api/v1/services                  POST /api/v1/services/{name}
                                       {"waiting": 12, "working": 4, "utilization": 0.8}: its replicas follow
POST /api/v1/nodes/{name}              {"state": "maintenance"}
POST /api/v1/agents/{name}             a node's agent, with its own token, and nobody else (see collectors.jobs.wire)
GET  /metrics                          Prometheus        GET  /healthz, /readyz
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, get_args

from fastapi import Body, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from scheduler.exposition import prometheus_text
from scheduler.live.admission import LONGEST_NAME
from scheduler.live.node_tokens import NodeTokens
from scheduler.live.service import RefusedError, Service
from scheduler.model import NodeState
from warehouse.errors import LedgerError

MOST_BYTES = 1 << 20
"""Maximum bytes of a request's body."""
MOST_AGENT_BYTES = 32 << 20
OPEN_PATHS = ("/healthz", "/readyz")
"""The latter is not answered by an operator that waits for another (scheduler.kubernetes.standby)."""
AGENTS = "/api/v1/agents/"
Act = Callable[[Service, str, str], dict[str, Any]]
VERBS: Mapping[str, Act] = {
    "cancel": Service.cancel,
    "hold": Service.hold,
    "release": Service.release,
    "suspend": Service.suspend,
    "resume": Service.resume,
    "renew": Service.renew,
    "reclaim": Service.reclaim,
    "propose": Service.propose,
    "keep": Service.keep,
}
"""Actions on a job that need only its id."""


def build_app(
    service: Service, token: str = "", allowed_hosts: tuple[str, ...] = ("*",), agents: NodeTokens | None = None
) -> FastAPI:
    """token: required of every request but /healthz, as a bearer token; '' = none is.

    allowed_hosts: Host headers that are answered, against DNS rebinding by web pages.
    agents: tokens of nodes' agents, which are valid for their node's route only; None: no agents.
    """
    app = FastAPI(title="gpuledger scheduler", docs_url=None, redoc_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(allowed_hosts))
    wanted = hashlib.sha256(token.encode()).digest() if token else b""

    @app.middleware("http")
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        path: str = request.scope["path"]  # the path that routing uses
        if path.startswith(AGENTS):
            refused = _no_agent(request, path.removeprefix(AGENTS), agents)
            if refused is not None:
                return refused
        elif wanted and path not in OPEN_PATHS and not _has_token(request, wanted):
            return _problem(401, "give the scheduler's token: Authorization: Bearer ...")
        if request.method == "POST":
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return _problem(415, "send application/json")
            length = request.headers.get("content-length", "")
            if not (length.isascii() and length.isdigit()):
                return _problem(411, "say the content-length")
            most = MOST_AGENT_BYTES if path.startswith(AGENTS) else MOST_BYTES
            if len(length) > 20 or int(length) > most:
                return _problem(413, f"at most {most:,} bytes are accepted")
        return await go_on(request)

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return _problem(error.status, str(error))

    @app.exception_handler(RequestValidationError)
    async def not_understood(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["ctx"]["error"] if first["type"] == "json_invalid" else first["msg"]
        return _problem(422, f"{where}: {what}"[:300].encode("ascii", "backslashreplace").decode())

    @app.exception_handler(LedgerError)
    async def broken(_: Request, error: LedgerError) -> JSONResponse:
        return _problem(503, str(error))

    _job_routes(app, service)
    _other_routes(app, service)
    return app


def _job_routes(app: FastAPI, service: Service) -> None:
    @app.post("/api/v1/jobs")
    def submit(request: Request, job: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return service.submit(job, _actor(request))

    @app.get("/api/v1/jobs")
    def jobs(
        status: str = "", queue: str = "", limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
    ) -> list[dict[str, Any]]:
        return service.list(status, queue, limit)

    @app.get("/api/v1/jobs/{job_id:path}")
    def explain(job_id: str) -> dict[str, Any]:
        return service.explain(job_id)

    @app.get("/api/v1/room/{job_id:path}")
    def room(job_id: str, most_moves: Annotated[int, Query(ge=1, le=32)] = 4) -> dict[str, Any]:
        return service.room(job_id, most_moves)

    for verb, act in VERBS.items():
        app.post(f"/api/v1/jobs/{{job_id:path}}/{verb}")(_job_action(service, act))

    @app.post("/api/v1/jobs/{job_id:path}/finish")
    def finish(request: Request, job_id: str, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        succeeded = body.get("succeeded")
        if not isinstance(succeeded, bool):
            raise RefusedError("succeeded", f"is {succeeded!r}", "Expected true or false")
        return service.finish(job_id, succeeded, _actor(request))

    @app.post("/api/v1/jobs/{job_id:path}/rescale")
    def rescale(request: Request, job_id: str, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        unknown = sorted(set(body) - {"min_replicas", "max_replicas"})
        if unknown:
            raise RefusedError(unknown[0][:60], "no such field", "Known fields: min_replicas, max_replicas")
        for name, value in body.items():
            if type(value) is not int:
                raise RefusedError(name, f"is {str(value)[:60]!r}", "Expected a whole number of replicas")
        return service.ask_rescale(job_id, body.get("min_replicas"), body.get("max_replicas"), _actor(request))

    @app.post("/api/v1/jobs/{job_id:path}/ready")
    def ready(job_id: str) -> dict[str, Any]:
        return service.ready(job_id)


def _job_action(service: Service, act: Act) -> Callable[[Request, str], dict[str, Any]]:
    def route(request: Request, job_id: str) -> dict[str, Any]:
        return act(service, job_id, _actor(request))

    return route


def _other_routes(app: FastAPI, service: Service) -> None:
    @app.get("/api/v1/pools")
    def pools() -> list[dict[str, Any]]:
        return service.pools()

    @app.get("/api/v1/idle")
    def idle() -> dict[str, Any]:
        return service.idle()

    @app.get("/api/v1/services")
    def services() -> list[dict[str, Any]]:
        return service.services()

    @app.post("/api/v1/services/{name:path}")
    def demand(name: str, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        used = body.get("utilization")
        counts = [body.get(what, 0 if used is None else None) for what in ("waiting", "working")]
        if any(count is not None and type(count) is not int for count in counts):
            raise RefusedError("waiting, working", f"are {counts}", "Expected whole numbers of requests")
        if used is not None and type(used) not in (int, float):
            raise RefusedError("utilization", f"is {used!r}", "Expected a number from 0 to 1")
        return service.demand(name, counts[0], counts[1], used)

    @app.post("/api/v1/nodes/{name:path}")
    def node(name: str, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        state: NodeState | None = next((fits for fits in get_args(NodeState) if fits == body.get("state")), None)
        if state is None:
            raise RefusedError(
                "state", f"is {body.get('state')!r}", f"Expected one of {', '.join(get_args(NodeState))}"
            )
        service.set_node(name, state)
        return {"node": name, "state": state}

    @app.post("/api/v1/agents/{name:path}")
    def agent(name: str, report: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return service.hear_agent(name, report)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(
            prometheus_text(service.measured(Service.series)), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @app.get("/readyz")
    @app.get("/healthz")
    def healthz() -> Response:
        problem, callbacks = service.outbox.problem, service.callbacks.state()
        found: dict[str, Any] = {
            "status": "degraded" if problem else "ok",
            "problem": problem,
            "events_waiting": service.outbox.waiting,
        }
        found |= {"callbacks": callbacks} if callbacks else {}
        return JSONResponse(found | ({"idle": service.idle_problem()} if service.watches_idleness else {}))


def _actor(request: Request) -> str:
    """The caller's name for the records, as the request claims it; only the token is verified."""
    claimed = request.headers.get("x-actor", "").encode("latin-1").decode("utf-8", errors="replace")
    return "".join(c for c in claimed if c.isprintable())[:LONGEST_NAME] or "http"


def _no_agent(request: Request, node: str, agents: NodeTokens | None) -> JSONResponse | None:
    """The error for a request that may not report for the node; None if it may."""
    may = None if agents is None else agents.may(_bearer(request), node)
    if may is None:
        return _problem(401, "give the token of the node's agent: Authorization: Bearer ...")
    return None if may else _problem(403, "this token speaks for another node")


def _bearer(request: Request) -> str:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _has_token(request: Request, wanted: bytes) -> bool:
    digest = hashlib.sha256(_bearer(request).encode("utf-8", errors="surrogateescape")).digest()
    return hmac.compare_digest(digest, wanted)


def _problem(status: int, text: str) -> JSONResponse:
    return JSONResponse({"detail": text}, status_code=status)
