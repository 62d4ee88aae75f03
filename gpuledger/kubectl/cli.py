"""The commands of the plugin. Exit 0: done; 2: unusable input, or no answer, with one line that says what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from collectors.kubernetes.direct import Cluster, Forbidden, NotThere
from gpuledger import options
from gpuledger.books import TokenFile, client, served
from gpuledger.cli import CONTEXT, Careful
from gpuledger.kubectl import cost as costs
from gpuledger.kubectl import explain as explains
from gpuledger.kubectl import who as whos
from gpuledger.output import print_json, print_lines, print_rows, say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339

JOBS = "/apis/gpuledger.io/v1alpha1/namespaces/{namespace}/elasticjobs/{name}"
MOST = 1000

app = typer.Typer(
    name="kubectl gpuledger",
    cls=Careful,
    help="Who holds the GPUs, what they cost, and why a job waits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
    add_completion=False,
)

Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Of the job.", show_default="the context's")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Of the API server.", show_default="KUBECONFIG, ~/.kube/config", dir_okay=False),
]
KubeContext = Annotated[str, typer.Option("--context", help="Of the kubeconfig.", show_default="its current one")]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar=["GPULEDGER_URL", "GPULEDGER_STORE"],
        help="Of the gpuledger server.",
        show_default=False,
        callback=options.checked_address,
    ),
]


class By(StrEnum):
    namespace = "namespace"
    tenant = "tenant"


@app.command()
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of an ElasticJob.")],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: KubeContext = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Why an ElasticJob waits: the operator's reason, the expected start, and what its pods wait for."""
    if fmt is options.Format.csv:
        raise LedgerError("--format csv", "one job is no table", "Use json")
    cluster = Cluster(kubeconfig, context)
    home, bare = namespace or cluster.namespace, name.rpartition("/")[2]
    try:
        job = cluster.get(JOBS.format(namespace=_segment(home), name=_segment(bare)))
    except NotThere as error:
        if error.resource:
            next_step = "Install the operator: docs/operator.md"
            raise LedgerError(error.where, "it serves no ElasticJobs", next_step) from None
        raise LedgerError(
            f"namespace {home}", f"has no ElasticJob {bare}", f"Check: kubectl -n {home} get ej"
        ) from None
    try:
        pods = cluster.list(f"/api/v1/namespaces/{_segment(home)}/pods", labelSelector=f"gpuledger.io/job={bare}")
    except Forbidden:
        say(f"you may not list pods in namespace {home}: what they wait for is not shown")
        pods = []
    found = explains.explanation(job, pods)
    if fmt is options.Format.json:
        print_json(found)
    else:
        print_lines(*explains.lines(found, datetime.now(UTC)))


@app.command()
def cost(
    url: Url = "",
    token_file: TokenFile = None,
    period: options.Period = "",
    by: Annotated[By, typer.Option(help="A namespace is a project of the books.")] = By.namespace,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="This one alone.", show_default="all")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Its name in the books.", show_default="all")] = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """GPU-hours and cost of the closed hours, by namespace or tenant."""
    from gpuledger.closed_spans import note_of

    with client(_server(url), token_file) as server:
        ledger = server.ledger(period, costs.dimensions(by.value, namespace, cluster))
    rows = costs.rows_of(ledger, by.value, namespace, cluster)
    if fmt is options.Format.json:
        print_json(
            {"period": {"start": ledger.period.start, "end": ledger.period.end}, "rows": rows[:-1], "total": rows[-1]}
        )
    elif fmt is options.Format.csv:
        print_rows(rows[:-1], tuple(rows[-1]), fmt)
    elif not ledger.period.closed_hours or ledger.period.start is None or ledger.period.end is None:
        say("no hour of that period is closed yet")
    else:
        span = f"{rfc3339(ledger.period.start)} to {rfc3339(ledger.period.end)}"
        if note := note_of(ledger.period):
            say(note)
        shown = [_for_people(row, by.value) for row in rows]
        print_rows(shown[:-1], tuple(shown[-1]), fmt, f"{span}, GPU-hours and {rows[-1]['currency'] or 'no price'}",
                   totals=shown[-1:])  # fmt: skip


HEADINGS = {"allocated_gpu_hours": "allocated", "used_gpu_hours": "used", "idle_gpu_hours": "idle",
            "unmetered_gpu_hours": "unmetered", "list_cost": "list cost", "billed_cost": "billed"}  # fmt: skip


def _for_people(row: dict[str, Any], by: str) -> dict[str, Any]:
    figures = {heading: None if row[key] is None else round(row[key], 2) for key, heading in HEADINGS.items()}
    return {by: row[by] or "(none)", **figures}


@app.command()
def who(
    node: Annotated[str, typer.Argument(metavar="NODE", help="As kubectl get nodes shows it.")],
    url: Url = "",
    token_file: TokenFile = None,
    cluster_name: Annotated[str, typer.Option("--cluster", help="Its name in the books.", show_default="all")] = "",
    kubeconfig: Kubeconfig = None,
    context: KubeContext = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Who holds which GPUs of a node now."""
    from gpuledger.client import ApiError

    with client(_server(url), token_file) as server:
        now = server.now(limit=MOST)
        try:
            wanted = ("cluster", "node", "device_id", "model", "state")
            devices: list[dict[str, Any]] | None = list(server.view("v_devices", columns=wanted))
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            devices = None
    rows = [
        row
        for row in whos.holders(node, now, devices, _pods(node, kubeconfig, context))
        if not cluster_name or row["cluster"] == cluster_name
    ]
    if not rows:
        what = "has no device in the books" if devices is not None else "has no allocation that you may see"
        raise LedgerError(f"node {node}", what, "Check the name: kubectl get nodes")
    if fmt is options.Format.json:
        print_json({"node": node, "at": now.at, "stopped": now.stopped, "rows": rows})
        return
    if len(now.allocations) < now.rows_in_all:
        say(f"the server gave {len(now.allocations)} of {now.rows_in_all} allocations: a holder may be missing here")
    if now.stopped:
        say("facts ended some time ago: nobody knows who holds what now")
    title = f"{node} at {rfc3339(now.at)}" if now.at else node
    print_rows([_holder_for_people(row) for row in rows], whos.COLUMNS, fmt, "" if fmt is options.Format.csv else title)


def _holder_for_people(row: dict[str, Any]) -> dict[str, Any]:
    """A device that nobody holds has its state in the place of a share."""
    used = None if row.get("used") is None else f"{row['used'] * 100:.0f}%"
    since = None if row.get("since") is None else f"{row['since']:%F %R}Z"
    device = row["device"] or "not known yet"
    return {**row, "device": device, "share": row.get("share") or row.get("state"), "used": used, "since": since}


def _pods(node: str, kubeconfig: Path | None, context: str) -> dict[str, str]:
    """namespace/name of the node's pods by UID; none, said in one line, where the cluster does not answer."""
    from collectors.kubernetes.objects import name, namespace, uid

    try:
        found = Cluster(kubeconfig, context).list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    except LedgerError as error:
        say(f"pods are shown by UID, as they cannot be listed ({error})")
        return {}
    return {uid(one): f"{namespace(one)}/{name(one)}" for one in found}


def _server(url: str) -> str:
    if not served(url):
        what = f"{url!r} is no server's address" if url else "no server is named"
        raise LedgerError("--url", what, "Give --url https://gpuledger.example.org, or GPULEDGER_URL")
    return url


def _segment(name: str) -> str:
    """Of an address: nothing in a name leads elsewhere."""
    from urllib.parse import quote

    return quote(name, safe="").replace(".", "%2E") if set(name) <= {"."} else quote(name, safe="")
