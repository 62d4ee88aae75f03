"""`gpuledger scheduler`: run the reference scheduler, or control a running one over HTTP."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import refuse_records
from gpuledger.output import print_json, print_lines, print_rows, say
from warehouse.errors import LedgerError
from warehouse.json_values import as_json

if TYPE_CHECKING:
    from collectors.kubernetes.connection import Connection
    from collectors.readings import Row
    from gpuledger.idle_feed import IdleFeed
    from ingest.token_file import Reread
    from scheduler.kubernetes.declarations import Declarations
    from scheduler.kubernetes.leadership import Leadership
    from scheduler.live.client import Client
    from scheduler.live.executors import Executor
    from scheduler.live.node_tokens import NodeTokens
    from scheduler.live.outbox import Deliver
    from scheduler.live.service import Service
    from scheduler.records.log import Entry, Log
    from scheduler.settings import Settings

log = logging.getLogger(__name__)

LOG_FILE = "scheduler.log.sqlite"
PORT = 8070
AT_ONCE_SECONDS = 3.0
"""Until an operator that has no lease tells so."""
LEVELS_SECONDS = 60.0
"""Interval between writes of the metrics for SQL."""

group = typer.Typer(help="The reference scheduler: run it, or control a running one.")


class ExecutorKind(StrEnum):
    none = "none"
    local = "local"
    agents = "agents"
    kubernetes = "kubernetes"


class PoolsFrom(StrEnum):
    file = "file"
    cluster = "cluster"


class End(StrEnum):
    finished = "finished"
    failed = "failed"


Url = Annotated[
    str,
    typer.Option("--url", envvar="GPULEDGER_SCHEDULER_URL", help="Of the scheduler.", callback=options.checked_address),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", envvar="GPULEDGER_SCHEDULER_TOKEN_FILE", help="File with its token.", dir_okay=False),
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of its log.", file_okay=False)]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="As `list` shows it.")]
DEFAULT_URL = f"http://127.0.0.1:{PORT}"


def register(app: typer.Typer) -> None:
    group.callback(invoke_without_command=True)(serve)
    for name, command in _COMMANDS.items():
        group.command(name)(command)
    app.add_typer(group, name="scheduler")


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="Pools, tenants, queues, policies (YAML).", dir_okay=False)
    ] = None,
    data: Data = None,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 = any.")] = PORT,
    token_file: TokenFile = None,
    cluster: Annotated[str, typer.Option("--cluster", envvar="GPULEDGER_CLUSTER", help="Its name in the books.")] = "",
    executor: Annotated[
        ExecutorKind,
        typer.Option(
            "--executor",
            help="none: something else runs the jobs; local: commands on this machine; agents: on their nodes; "
            "kubernetes: pods of ElasticJobs.",
        ),
    ] = ExecutorKind.none,
    agent_tokens: Annotated[
        Path | None,
        typer.Option("--agent-tokens", help="Tokens of the nodes' agents (YAML), for agents.", dir_okay=False),
    ] = None,
    lease: Annotated[
        float,
        typer.Option("--lease", min=2, max=86_400, help="Seconds without contact after which a node counts as lost."),
    ] = 60.0,
    node_name: Annotated[
        str,
        typer.Option(
            "--node",
            envvar="GPULEDGER_NODE",
            help="This machine's name in the settings, for local.",
            show_default="the only node there, else the host name",
        ),
    ] = "",
    run_as: Annotated[
        str | None,
        typer.Option("--run-as", help="User that runs them, for local; root must be explicit."),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option("--beside", help="kubernetes or slurm: runs here too, but not on these devices; for local."),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            help="Of the API server, for kubernetes.",
            show_default="the pod's account, KUBECONFIG, ~/.kube/config",
            dir_okay=False,
        ),
    ] = None,
    kube_context: Annotated[
        str, typer.Option("--context", help="Of the kubeconfig.", show_default="its current one")
    ] = "",
    lease_namespace: Annotated[
        str,
        typer.Option(
            "--lease-namespace",
            help="Of the Lease by which one operator acts, for kubernetes.",
            show_default="the pod's own, else gpuledger",
        ),
    ] = "",
    pools_from: Annotated[
        PoolsFrom,
        typer.Option(
            "--pools-from",
            help="file: pools, tenants and queues are in --config; cluster: ComputePools, Tenants and Queues say them, "
            "for kubernetes.",
        ),
    ] = PoolsFrom.file,
    gated_pods: Annotated[
        bool,
        typer.Option(
            "--gated-pods",
            help="Also admit others' pods, which have a queue's label and our scheduling gate; for kubernetes.",
        ),
    ] = False,
    events: Annotated[
        str,
        typer.Option(
            "--events",
            help="Where events for the books go: `store`, a server's https:// address, or a file; empty: "
            "they stay in the log until a later run names a place.",
        ),
    ] = "",
    events_token_file: Annotated[
        Path | None, typer.Option("--events-token-file", help="Token for a server in --events.", dir_okay=False)
    ] = None,
    idle_from: Annotated[
        str,
        typer.Option(
            "--idle-from",
            envvar="GPULEDGER_IDLE_FROM",
            help="Address of the gpuledger server that knows which jobs are idle, for `idle` in the settings, and how "
            "used jobs are, for scaling policies.",
        ),
    ] = "",
    idle_token_file: Annotated[
        Path | None,
        typer.Option(
            "--idle-token-file",
            envvar="GPULEDGER_IDLE_TOKEN_FILE",
            help="Token for it, which sees the alerts of all tenants.",
            dir_okay=False,
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.01, max=3600, help="Maximum seconds between cycles.")
    ] = 1.0,
    store: options.Store = "",
) -> None:
    """Run the scheduler until Ctrl-C: a loop over a log that survives kill -9, HTTP to submit, explain and cancel."""
    if context.invoked_subcommand is not None:
        return
    if config is None or data is None:
        raise LedgerError("gpuledger scheduler", "needs --config FILE and --data FOLDER", "`--help` shows the rest")
    if events == "store":
        refuse_records(store, "Give its https:// address to --events")
    from gpuledger.serve import listen, serving, url_of
    from ingest.token_file import Reread
    from scheduler.live.client import read_token
    from scheduler.live.http import build_app
    from scheduler.live.service import Service
    from scheduler.records.log import Log
    from scheduler.settings import load_settings
    from warehouse.hosts import is_loopback

    token = read_token(token_file)
    if not token and (not is_loopback(host) or executor is not ExecutorKind.none):
        why = "others can reach that address" if executor is ExecutorKind.none else "who can submit can run commands"
        raise LedgerError(f"--host {host}, --executor {executor.value}", why, "Give --token-file FILE")
    tokens = _node_tokens(executor, agent_tokens)
    if events and executor is ExecutorKind.kubernetes:
        why = "would count every pod twice: `gpuledger watch kubernetes` reports them, with their devices"
        raise LedgerError("--events with --executor kubernetes", why, "Leave --events out")
    changes = Reread(config)
    settings = load_settings(config)
    declared = pools_from is PoolsFrom.cluster
    if declared and executor is not ExecutorKind.kubernetes:
        raise LedgerError("--pools-from cluster", "is for --executor kubernetes", "See docs/operator.md")
    if declared:
        from scheduler.kubernetes.declared import check_file

        check_file(settings, str(config))  # at once: one that waits for the lease would only fail when it takes over
    if gated_pods and executor is not ExecutorKind.kubernetes:
        raise LedgerError("--gated-pods", "is for --executor kubernetes", "See docs/operator.md")
    feed = _idle_feed(idle_from, idle_token_file, cluster, settings)
    with contextlib.ExitStack() as stack:
        kubernetes = _Kubernetes(executor, kubeconfig, kube_context, lease_namespace)
        leadership = stack.enter_context(_leading(kubernetes, data, host, port))
        journal = stack.enter_context(contextlib.closing(Log(data / LOG_FILE, alone=True)))
        deliver = stack.enter_context(_delivering(events, cluster, events_token_file, store))
        runs = _executor(executor, data, lease, node_name or _this_node(settings), run_as, beside or (), gated_pods)
        first = _first(journal, settings, str(config)) if declared else settings
        service = Service(journal, first, cluster, runs, time.time, deliver)
        declarations = _declarations(service, runs, settings) if declared else None
        step = stack.enter_context(_cycles(service, runs, kubernetes, leadership, declarations))
        listener = stack.enter_context(listen(host, port))
        allowed = ("localhost", "127.0.0.1", "[::1]") if is_loopback(host) else ("*",)
        stack.enter_context(serving(build_app(service, token, allowed, tokens), listener))
        stack.enter_context(_calling_back(service, interval))
        stack.enter_context(_watching_idleness(service, feed))
        say(f"  Scheduler   {url_of(listener)}   (Ctrl-C ends it)")
        say(f"  Log         {journal.path}, {journal.last:,} {'entry' if journal.last == 1 else 'entries'}")
        apply = service.configure if declarations is None else partial(declarations.read_file, where=str(config))
        _loop(service, step, lambda: _reload(apply, config, changes), interval, deliver)
    say("stopped; whatever runs goes on, and a later start finds it")


def _executor(
    kind: ExecutorKind, data: Path, lease: float, node: str, run_as: str | None, beside: Sequence[str], gated: bool
) -> Executor:
    from scheduler.kubernetes.executor import PodExecutor
    from scheduler.kubernetes.gates import GatedPodExecutor
    from scheduler.live.agents import Agents
    from scheduler.live.executors import Recorder

    if kind is ExecutorKind.none:
        return Recorder()
    if kind is ExecutorKind.kubernetes:
        return GatedPodExecutor(PodExecutor()) if gated else PodExecutor()
    if kind is ExecutorKind.agents:
        return Agents(lease, data / "agents.json")
    from collectors.jobs.devices import devices_here
    from collectors.jobs.launchers import refuse_beside
    from collectors.jobs.processes import user_named
    from scheduler.live.local import LocalProcesses

    refuse_beside(beside, "--executor local")
    return LocalProcesses(data / "jobs", node, user=user_named(run_as, "--run-as"), devices=devices_here())


@contextlib.contextmanager
def _cycles(
    service: Service,
    executor: Executor,
    kubernetes: _Kubernetes,
    leadership: Leadership | None,
    declarations: Declarations | None,
) -> Iterator[Callable[[], bool]]:
    """Yields the function that runs one cycle: of the scheduler alone, or of the operator around it."""
    from scheduler.kubernetes.executor import PodExecutor
    from scheduler.kubernetes.gates import GatedPodExecutor

    gates = executor if isinstance(executor, GatedPodExecutor) else None
    ranks = executor if gates is None else gates.elastic
    if not isinstance(ranks, PodExecutor) or leadership is None:
        yield service.step
        return
    from scheduler.kubernetes.admission import Admission
    from scheduler.kubernetes.cluster import ApiCluster
    from scheduler.kubernetes.operator import Operator

    may_act, declared = leadership.left, declarations is not None
    admission = None if gates is None else Admission(service, gates, labelled=declared)
    with ApiCluster(kubernetes.connection(), declared=declared, may_act=may_act, gated=gates is not None) as cluster:
        operator = Operator(service, ranks, cluster, time.time, declarations, admission)
        yield lambda: may_act() > 0 and operator.step()


@dataclass(frozen=True)
class _Kubernetes:
    """How the API server is reached, and where the lease is."""

    executor: ExecutorKind
    kubeconfig: Path | None
    context: str
    lease_namespace: str

    def connection(self) -> Connection:
        from collectors.kubernetes.connection import find

        return find(self.kubeconfig, self.context)


@contextlib.contextmanager
def _leading(kubernetes: _Kubernetes, data: Path, host: str, port: int) -> Iterator[Leadership | None]:
    """Waits until this operator is the one that acts; None where there is none."""
    if kubernetes.executor is not ExecutorKind.kubernetes:
        if kubernetes.kubeconfig is not None or kubernetes.context or kubernetes.lease_namespace:
            options_ = "--kubeconfig, --context, --lease-namespace"
            raise LedgerError(options_, "are for --executor kubernetes", "See docs/operator.md")
        yield None
        return
    from gpuledger.serve import listen, serving
    from scheduler.kubernetes.leadership import Leadership, LeaseTakenError, log_name, namespace_here
    from scheduler.kubernetes.standby import build_standby

    where = kubernetes.lease_namespace or namespace_here()
    with Leadership(kubernetes.connection(), where, log_name(data)) as leadership:
        if not leadership.acquired(AT_ONCE_SECONDS):
            say(f"  Waiting     {leadership.waits}")
            with listen(host, port) as listener, serving(build_standby(lambda: leadership.waits), listener):
                leadership.acquired()
        try:
            yield leadership
        except LeaseTakenError as error:
            raise LedgerError(str(error), "this one has stopped acting", "Start it again, and it waits") from None


def _first(journal: Log, file: Settings, where: str) -> Settings:
    """What is in force until the cluster is known."""
    from scheduler.kubernetes.declarations import first_settings
    from scheduler.settings import parse_settings

    configured = journal.of_kind("configured")
    last = parse_settings(configured[-1].body["settings"], str(journal.path)) if configured else None
    return first_settings(last, file, where)


def _declarations(service: Service, executor: Executor, file: Settings) -> Declarations:
    from scheduler.kubernetes.declarations import Declarations
    from scheduler.kubernetes.executor import PodExecutor
    from scheduler.kubernetes.gates import GatedPodExecutor

    ranks = executor.elastic if isinstance(executor, GatedPodExecutor) else executor
    assert isinstance(ranks, PodExecutor)
    return Declarations(service, ranks, file)


def _this_node(settings: Settings) -> str:
    nodes = settings.nodes()
    return nodes[0].name if len(nodes) == 1 else socket.gethostname()


def _node_tokens(kind: ExecutorKind, path: Path | None) -> NodeTokens | None:
    from scheduler.live.node_tokens import NodeTokens

    if (path is None) == (kind is ExecutorKind.agents):
        what = "nobody may speak for a node" if path is None else "is for --executor agents"
        raise LedgerError("--agent-tokens", what, "See docs/scheduler-live.md")
    return None if path is None else NodeTokens(path)


@contextlib.contextmanager
def _delivering(events: str, cluster: str, token_file: Path | None, store: str) -> Iterator[Deliver | None]:
    from collectors.readings import Collected
    from gpuledger.destinations import destination

    if not events:
        yield None
        return
    is_url = events.startswith(("http://", "https://"))
    out = "" if is_url or events == "store" else events
    with destination(cluster, "scheduler", out, events if is_url else "", token_file, None, store) as to:
        say(f"  Events      {to.name}")

        def deliver(record: str, rows: Sequence[Row]) -> None:
            collected = Collected()
            for row in rows:
                collected.add(record, row)
            to.put(collected)

        yield deliver


@contextlib.contextmanager
def _calling_back(service: Service, interval: float) -> Iterator[None]:
    """Delivers callbacks on a thread of their own, so that a slow receiver delays no decision."""
    stop = threading.Event()
    begun: list[threading.Thread] = []

    def run() -> None:
        while not stop.is_set():
            begun[:] = [*(one for one in begun if one.is_alive()), *service.callbacks.begin()]
            stop.wait(interval)

    thread = threading.Thread(target=run, name="callbacks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        until = time.monotonic() + 10
        for one in (thread, *begun):
            one.join(max(0.0, until - time.monotonic()))


def _idle_feed(url: str, token_file: Path | None, cluster: str, settings: Settings) -> IdleFeed | None:
    from gpuledger.idle_feed import IdleFeed

    if settings.idle and not url:
        log.warning("idle: nobody says which jobs are idle, so that these policies do nothing; give --idle-from URL")
    if not url and token_file is not None:
        raise LedgerError("--idle-token-file", "is for --idle-from", "Give --idle-from URL")
    return IdleFeed(url, token_file, cluster, time.time) if url else None


@contextlib.contextmanager
def _watching_idleness(service: Service, feed: IdleFeed | None) -> Iterator[None]:
    """Asks who is idle on a thread of its own, so that a slow server delays no decision."""
    if feed is None:
        yield
        return
    from gpuledger.idle_feed import follow

    service.watches_idleness = True
    stop = threading.Event()
    more = {"windows": service.use_windows, "receive_use": service.hear_use}
    thread = threading.Thread(
        target=follow, args=(feed, service.hear_idle, stop), kwargs=more, name="idle", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()


def _loop(
    service: Service,
    step: Callable[[], bool],
    reload: Callable[[], None],
    interval: float,
    deliver: Deliver | None,
) -> None:
    """Runs cycles until SIGINT or SIGTERM, `interval` seconds apart, or without a pause while there is work."""
    from gpuledger.resident import give_back
    from gpuledger.serve import collect_seldom

    collect_seldom()
    give_back()
    stop = threading.Event()
    measured_at = time.monotonic()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not stop.is_set():
            try:
                reload()
                if step():
                    continue
                if deliver is not None and time.monotonic() - measured_at >= LEVELS_SECONDS:
                    measured_at = time.monotonic()
                    deliver("service_levels", service.measured(_service_levels))
            except (LedgerError, OSError) as error:
                log.error("%s", error)
            stop.wait(interval)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reload(apply: Callable[[Settings], None], config: Path, changes: Reread) -> None:
    """Applies the settings where their file has changed, and until they could be written down. Of settings that are
    gone or unusable it says so once, and the ones in force stay."""
    from scheduler.settings import SettingsError, load_settings

    def configure() -> None:
        try:
            apply(load_settings(config))
        except SettingsError as error:
            log.error("%s; the previous settings stay in force", error)

    try:
        changes.if_changed(configure)
    except LedgerError as error:
        log.error("%s", error)


def _service_levels(service: Service) -> list[Row]:
    from scheduler.exposition import rows

    return rows(service.series(), service.cluster, service.book.meter.now, LEVELS_SECONDS)


def submit(
    job: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A job as JSON or YAML, fields of docs/scheduler-live.md.")
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="Who pays.")] = "",
    queue: Annotated[str, typer.Option("--queue", help="One of the settings' queues.")] = "",
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="Of each replica.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", min=1, help="Started together.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="The higher goes first.")] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", min=1, help="Seconds.")] = None,
    job_id: Annotated[
        str, typer.Option("--job-id", help="An id of your own; submitting the same job again changes nothing.")
    ] = "",
    command: Annotated[
        list[str] | None, typer.Option("--command", help="A word each, for --executor local and agents.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Submit a job: a file, options, or options over a file."""
    document = _document(job)
    request = dict(document.get("request", {}))
    given = {
        "tenant": tenant,
        "queue": queue,
        "job_id": job_id,
        "priority": priority,
        "time_limit": time_limit,
        "min_replicas": replicas,
        "max_replicas": None if replicas is None else max(replicas, document.get("max_replicas", 0)),
        "payload": {"command": command} if command else None,
    }
    document |= {name: value for name, value in given.items() if value not in ("", None)}
    if gpus is not None:
        request["devices"] = gpus
    _print_document(_client(url, token_file).submit(document | {"request": request}), output)


def _document(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from warehouse.written_files import read_yaml

    return read_yaml(path, "a job", "An object with tenant, queue and request fits", LedgerError)


def list_jobs(
    status: Annotated[str, typer.Option("--status", help="pending, running, held, suspended, ...")] = "",
    queue: Annotated[str, typer.Option("--queue", help="Only this queue.")] = "",
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Pending and running jobs, in order of submission; as JSON with ranks, devices and payloads."""
    columns = ("job_id", "status", "reason", "tenant", "queue", "priority", "submitted_at", "since", "attempt", "nodes")
    rows = _client(url, token_file).jobs(status, queue)
    if output is options.Format.json:
        print_json(rows)
        return
    for row in rows:
        row["nodes"] = " ".join(row["nodes"])
        if output is options.Format.table:
            row |= {name: _to_the_second(row[name]) for name in ("submitted_at", "since")}
    print_rows(rows, columns, output)


def explain(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Why a job waits, runs or was preempted: every reason with its numbers, and all decisions about it."""
    found = _client(url, token_file).explain(job_id)
    if output is options.Format.json:
        print_json(found)
        return
    if output is options.Format.csv:
        print_rows(found["history"], ("sequence", "at", "what", "decision_id"), output)
        return
    for line in explained(found):
        print_lines(line)


def explained(found: dict[str, Any]) -> list[str]:
    """The lines of an explanation, for people: its instants to the second."""
    found = _to_the_second(found)
    lines = [" · ".join(f"{k} {found[k]}" for k in ("job_id", "status", "queue", "tenant", "attempt") if found.get(k))]
    for reason in found.get("reasons", []):
        counts = ", ".join(f"{what} {count}" for what, count in reason.get("counts", {}).items())
        blockers = ", ".join(reason.get("blockers", []))
        lines.append(
            f"  {reason['code']}: {reason.get('text', '')}"
            + (f" [{counts}]" if counts else "")
            + (f" (held by {blockers})" if blockers else "")
        )
    if found.get("expected_start"):
        error = found["expected_start_error_seconds"]
        past = f"; past ones were off by p50 {error['p50']:.0f} s, p95 {error['p95']:.0f} s" if error["known"] else ""
        lines.append(f"  first expected to start by {found['expected_start']}{past}")
    if "idle" in found:
        one = found["idle"]
        known = one["problem"] or f"idle since {one['idle_since']}"
        at = f" at {one['next_at']}, if it stays so" if one["next_at"] else ""
        lines.append(f"  idle: {known}; next: {one['next']}{at}")
    if "scaling" in found:
        one = found["scaling"]
        range_ = "from {} to {}".format(*one["asked"])
        bounds = f"{one['min_replicas']} to {one['max_replicas']}"
        problem = f"; {one['problem']}" if one["problem"] else ""
        lines.append(f"  scaling: asks {range_}, has {bounds} ({one['reason']}: {one['text']}){problem}")
    lines.append("history:")
    for entry in found["history"]:
        rest = {key: value for key, value in entry.items() if key not in ("at", "what", "sequence")}
        if "reasons" in rest:
            rest = {"reasons": ", ".join(reason["code"] for reason in rest["reasons"])}
        lines.append(f"  {entry['at']}  {entry['what']:<9} {json.dumps(rest, ensure_ascii=False) if rest else ''}")
    return lines


def _job_action(what: str, help_text: str) -> Callable[..., None]:
    """Makes a command that does one action on a job, and needs only its id."""

    def command(
        job_id: JobId,
        url: Url = DEFAULT_URL,
        token_file: TokenFile = None,
        output: options.OutputFormat = options.Format.table,
    ) -> None:
        _print_document(_client(url, token_file).act(job_id, what), output)

    command.__doc__ = help_text
    return command


def rescale(
    job_id: JobId,
    least: Annotated[
        int | None, typer.Option("--min", min=1, help="The fewest replicas; as it is, if left out.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max", min=1, help="The most replicas; as it is, if left out.")] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Change how many replicas a job has at least and at most; one that runs with more gives up the last at once."""
    if least is None and most is None:
        raise LedgerError("rescale", "says nothing", "Give --min, --max or both")
    bounds = {"min_replicas": least, "max_replicas": most}
    asked = {name: count for name, count in bounds.items() if count is not None}
    _print_document(_client(url, token_file).act(job_id, "rescale", asked), output)


def finish(
    job_id: JobId,
    ending: Annotated[End, typer.Option("--as", help="How it ended.")] = End.finished,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Report that a running job has ended, with --executor none."""
    _print_document(_client(url, token_file).act(job_id, "finish", {"succeeded": ending is End.finished}), output)


def room(
    job_id: JobId,
    most_moves: Annotated[
        int, typer.Option("--most-moves", min=1, max=32, help="At most so many for each of its replicas.")
    ] = 4,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Propose moves that make room for a pending job, whatever its quota; moves nothing. Exit 1 if none was found."""
    found = _client(url, token_file).room(job_id, most_moves)
    if output is options.Format.json:
        print_json(found)
    elif found["moves"]:
        print_rows(found["moves"], ("job_id", "replica", "from", "to"), output)
    if found["moves"] is None:
        say(f"no moves were found that make room for {job_id}")
        raise typer.Exit(1)
    say(f"{len(found['moves'])} moves; then {job_id} fits on {', '.join(dict.fromkeys(found['nodes']))}")


def pools(
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Capacity of each pool by state and model, in device units; the parts add up to the total."""
    print_rows(_client(url, token_file).pools(), POOL_COLUMNS, output)


def idle(
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Running jobs that are idle, for how long, and what happens to them next by the policies in the settings; and jobs
    that are suspended for it."""
    found = _client(url, token_file).idle()
    if output is options.Format.json:
        print_json(found)
        return
    jobs = _to_the_second(found["jobs"]) if output is options.Format.table else found["jobs"]
    print_rows(jobs, IDLE_COLUMNS, output)
    if found["problem"]:
        say(f"nothing is known now, and nothing is done: {found['problem']}")


def services(
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Services with their queues and replicas."""
    print_rows(_client(url, token_file).services(), SERVICE_COLUMNS, output)


def demand(
    service: Annotated[str, typer.Argument(help="As in the settings.")],
    waiting: Annotated[int | None, typer.Option(min=0, help="Requests in its queue.")] = None,
    working: Annotated[int | None, typer.Option(min=0, help="Requests being processed.")] = None,
    utilization: Annotated[
        float | None, typer.Option(min=0, max=1, help="Mean utilization of its ready replicas, 0 to 1.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Report a service's queue length or utilization; its replicas follow."""
    if waiting is None and utilization is None:
        raise LedgerError("demand", "says nothing", "Give --waiting, --utilization or both")
    _print_document(_client(url, token_file).demand(service, waiting, working, utilization), output)


def node(
    name: Annotated[str, typer.Argument(help="Of the node.")],
    state: Annotated[str, typer.Argument(help="available, maintenance or failed.")],
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Set a node's state: nothing starts on an unavailable one; what runs there continues."""
    _print_document(_client(url, token_file).set_node(name, state), output)


def snapshot(out: Annotated[Path, typer.Argument(help="File to write, JSON lines.")], data: Data = None) -> None:
    """Write the log to a file for replay, also while the scheduler runs."""
    from scheduler.records.restore import write_snapshot

    with _log(data) as journal:
        say(f"{out}: {write_snapshot(journal.entries(), out):,} entries")


def replay(
    what: Annotated[
        str, typer.Argument(metavar="SNAPSHOT|SEQUENCE|JOB", help="A file of `snapshot`, a plan's number, or a job's.")
    ] = "",
    data: Data = None,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Repeat recorded plans from the state before them, and compare; exit 1 if one differs."""
    from scheduler.records import restore

    path = Path(what)
    if data is None and path.is_file():
        entries = list(restore.read_snapshot(path))
        plans = [entry for entry in entries if entry.kind == "plan"]
    else:
        with _log(data) as journal:
            entries = list(journal.entries())
            plans = _plans(journal, what)
    if not plans:
        raise LedgerError(what or "log", "has no plan", "`explain JOB` shows the plans that concern a job")
    rows = [
        {
            "sequence": done.sequence,
            "at": as_json(done.instant),
            "actions": len(done.recorded["actions"]),
            "same": done.same,
            "recorded": json.dumps(done.recorded),
            "again": json.dumps(done.again),
        }
        for done in restore.replays(entries, plans)
    ]
    columns = ["sequence", "at", "actions", "same"]
    if output is not options.Format.table or not all(row["same"] for row in rows):
        columns += ["recorded", "again"]
    print_rows(rows, columns, output)
    if not all(row["same"] for row in rows):
        raise typer.Exit(1)


def _plans(journal: Log, what: str) -> list[Entry]:
    if re.fullmatch(r"[0-9]{1,18}", what):
        return [entry for entry in [journal.entry(int(what))] if entry.kind == "plan"]
    found = journal.of_job(what) if what else journal.of_kind("plan")
    return [entry for entry in found if entry.kind == "plan"]


@contextlib.contextmanager
def _log(data: Path | None) -> Iterator[Log]:
    from scheduler.records.log import Log

    if data is None or not (data / LOG_FILE).is_file():
        raise LedgerError(f"--data {data or ''}".strip(), "no log of a scheduler there", "Give the --data of its start")
    with contextlib.closing(Log(data / LOG_FILE)) as journal:
        yield journal


def _client(url: str, token_file: Path | None) -> Client:
    from billing.audit import whoever
    from scheduler.live.client import Client, read_token

    return Client(url, read_token(token_file), whoever())


def _to_the_second(value: Any) -> Any:
    """An instant of the scheduler's answers, as people read it, also in lists and objects; other values as they are."""
    if isinstance(value, dict):
        return {key: _to_the_second(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_to_the_second(one) for one in value]
    return f"{value[:19]}Z" if isinstance(value, str) and _INSTANT.fullmatch(value) else value


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _print_document(row: dict[str, Any], output: options.Format) -> None:
    if output is options.Format.json:
        print_json(row)
    else:
        shown = {
            key: " ".join(map(str, value)) if isinstance(value, list) else _to_the_second(value)
            for key, value in row.items()
            if key not in ("ranks", "payload")
        }
        print_rows([shown], [*shown], output)


POOL_COLUMNS = (
    "pool", "model", "units_per_gpu", "total", "allocated", "available", "reserved", "unavailable",
)  # fmt: skip
IDLE_COLUMNS = (
    "job_id", "tenant", "queue", "gpus", "idle_seconds", "idle_since", "step", "by", "next", "next_at", "policy",
    "problem",
)  # fmt: skip
SERVICE_COLUMNS = (
    "service", "waiting", "working", "utilization", "desired", "pending", "cold", "warm", "cold_starts",
    "cold_unit_seconds", "why",
)  # fmt: skip
_COMMANDS: Mapping[str, Callable[..., None]] = {
    "submit": submit,
    "list": list_jobs,
    "explain": explain,
    "cancel": _job_action("cancel", "End a job; one that runs is stopped."),
    "hold": _job_action("hold", "Keep a pending job from starting."),
    "release": _job_action("release", "Let a held job start again."),
    "suspend": _job_action(
        "suspend",
        "Set a job aside: one that runs is stopped and gives its devices back; it keeps its place in the queue.",
    ),
    "resume": _job_action("resume", "Let a suspended job wait again, in the place that its submission gives it."),
    "renew": _job_action("renew", "Renew the lease of a running job, which otherwise ends when it is over."),
    "idle": idle,
    "reclaim": _job_action(
        "reclaim", "Say yes to what the settings have for an idle job: make it smaller, suspend or cancel it, at once."
    ),
    "propose": _job_action(
        "propose", "Propose that instead: an operator says yes to it with `reclaim`, or keeps the job."
    ),
    "keep": _job_action(
        "keep", "Exempt a running attempt from what is done to idle jobs; one that was made smaller may grow again."
    ),
    "rescale": rescale,
    "finish": finish,
    "room": room,
    "ready": _job_action("ready", "Say that a service's replica has loaded and serves; until then it was cold."),
    "pools": pools,
    "services": services,
    "demand": demand,
    "node": node,
    "snapshot": snapshot,
    "replay": replay,
}
