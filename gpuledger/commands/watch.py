"""`gpuledger watch`: follows Kubernetes or Slurm, and records which workload is allocated which GPUs."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from collectors.readings import Row
from gpuledger import options
from gpuledger.destinations import destination, state_file
from gpuledger.output import say
from warehouse.errors import LedgerError
from warehouse.json_text import parse_json

if TYPE_CHECKING:
    from collectors.kubernetes.api import Api
    from collectors.kubernetes.watcher import Watcher
    from collectors.slurm.jobs import Site, Word
    from collectors.slurm.sources import Source

group = typer.Typer(no_args_is_help=True, help="Follow a scheduler: allocations of GPUs and how they ended.")

Cluster = Annotated[
    str, typer.Option("--cluster", envvar="GPULEDGER_CLUSTER", help="Its name, as the agents on its nodes say it.")
]
Once = Annotated[bool, typer.Option("--once", help="Report what is new since the last run, and exit.")]
Out = Annotated[
    str,
    typer.Option("--out", help="Append JSON lines to this file instead (`-`: print them); `record` names the type."),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="GPULEDGER_URL",
        help="Deliver to a `gpuledger server`, not to a store: https://server:8443.",
        callback=options.checked_address,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", envvar="GPULEDGER_TOKEN_FILE", help="File with the token for --url.", dir_okay=False),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", envvar="GPULEDGER_CA_FILE", help="CA of its certificate, PEM.")
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="File with the position for restarts.",
        dir_okay=False,
        show_default="in ~/.local/state/gpuledger",
    ),
]


class ShareByOption(StrEnum):
    larger = "larger"
    cores = "cores"
    memory = "memory"


class QueuesOption(StrEnum):
    kueue = "kueue"
    volcano = "volcano"


def register(app: typer.Typer) -> None:
    group.command("kubernetes")(kubernetes)
    group.command("slurm")(slurm)
    app.add_typer(group, name="watch")


def kubernetes(
    cluster: Cluster = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", help="How to reach it.", dir_okay=False, show_default="our pod's own, then KUBECONFIG"
        ),
    ] = None,
    context: Annotated[str, typer.Option("--context", help="Of the kubeconfig.", show_default="its current")] = "",
    once: Once = False,
    tenant_label: Annotated[
        list[str] | None,
        typer.Option("--tenant-label", help="Label or annotation of pods that names who pays; may be repeated.",
                     show_default="the namespace"),
    ] = None,
    project_label: Annotated[
        list[str] | None, typer.Option("--project-label", help="And the project.", show_default="the namespace")
    ] = None,
    user_label: Annotated[list[str] | None, typer.Option("--user-label", help="And the person.")] = None,
    pool_label: Annotated[
        list[str] | None, typer.Option("--pool-label", help="Label of nodes that names their pool.")
    ] = None,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", help="Another resource that counts whole accelerators.")
    ] = None,
    share_by: Annotated[
        ShareByOption,
        typer.Option("--share-by", help="What part of a GPU a pod holds, and pays, that asks for parts of memory "
                     "and of cores."),
    ] = ShareByOption.larger,
    queues: Annotated[
        list[QueuesOption] | None,
        typer.Option("--queues", help="Also read this scheduler's queues, quotas and waiting workloads; may be "
                     "repeated.", show_default="none"),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option("--inventory", help="Device rows of the nodes' agents as JSON lines; a store and a server have "
                     "them.", dir_okay=False),
    ] = None,
    state: State = None,
    out: Out = "",
    url: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    store: options.Store = "",
) -> None:  # fmt: skip
    """Pods, claims and nodes of a Kubernetes cluster: events and device states, until Ctrl-C."""
    from collectors.kubernetes.connection import find
    from collectors.kubernetes.settings import Settings

    defaults = Settings()
    settings = Settings(
        cluster=_named(cluster),
        tenant_marks=tuple(tenant_label or ()),
        project_marks=tuple(project_label or ()),
        user_marks=tuple(user_label or defaults.user_marks),
        pool_marks=tuple(pool_label or defaults.pool_marks),
        resources=tuple(resource or ()),
        share_by=share_by.value,
        queues_of=tuple(dict.fromkeys(one.value for one in queues or ())),
    )
    where = state_file(state, "kubernetes", cluster, out, url, store)
    with destination(cluster, "kubernetes", out, url, token_file, ca_file, store, once) as to:
        connection = find(kubeconfig, context)
        from collectors.kubernetes import state as states
        from collectors.kubernetes.api import Api
        from collectors.kubernetes.watcher import Watcher

        with contextlib.closing(states.State(where, cluster)) as state_store:
            say(f"kubernetes: {connection.server} as cluster {cluster}, {to.name}")
            api = Api(connection)
            watcher = Watcher(
                api,
                settings,
                state_store,
                to.put,
                inventory=_inventory(inventory, to.devices, cluster),
                say=lambda line: say(f"kubernetes: {line}"),
            )
            _run_until_stopped(_watch(watcher, api, once))
            say(f"kubernetes: {to.closing_line(watcher.dropped)}")


def slurm(
    cluster: Cluster = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Read this once, instead of asking: JSON of sacct, squeue or sinfo, or text of "
                     "sacct.", dir_okay=False),
    ] = None,
    sacct: Annotated[str, typer.Option("--sacct", help="The command, with what goes before its options.")] = "sacct",
    squeue: Annotated[str, typer.Option("--squeue", help="And this one.")] = "squeue",
    scontrol: Annotated[str, typer.Option("--scontrol", help="And this one.")] = "scontrol",
    rest: Annotated[
        str, typer.Option("--rest", help="Use slurmrestd instead of the commands: https://host:6820, unix:/its/socket.")
    ] = "",
    rest_token_file: Annotated[
        Path | None,
        typer.Option("--rest-token-file", help="File with the JWT for it; a socket needs none.", dir_okay=False),
    ] = None,
    rest_user: Annotated[
        str, typer.Option("--rest-user", help="Whose token it is.", show_default="whom the token names")
    ] = "",
    rest_version: Annotated[
        str, typer.Option("--rest-version", help="Of its data parser.", show_default="the newest that it offers")
    ] = "",
    zone: Annotated[
        str, typer.Option("--zone", help="Time zone of the times in a --file of text.", show_default="UTC")
    ] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Slurm's word for who pays.")] = "account",
    project: Annotated[str, typer.Option("--project", help="And for the project.")] = "account",
    inventory: Annotated[
        Path | None,
        typer.Option("--inventory", help="CSV: which device a node's gres index is (docs/slurm.md).", dir_okay=False),
    ] = None,
    every: Annotated[float, typer.Option("--every", help="Seconds between two reads.", min=1.0, max=86_400)] = 60.0,
    once: Once = False,
    state: State = None,
    out: Out = "",
    url: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    store: options.Store = "",
) -> None:  # fmt: skip
    """Jobs and nodes of a Slurm cluster, from its accounting and its controller: events and device states."""
    from collectors.interruptible import InterruptedAskError, answered
    from collectors.slurm.collect import SlurmCollector
    from collectors.slurm.files import read_file
    from collectors.slurm.inventory import read_inventory
    from collectors.slurm.jobs import Site

    site = Site(zone=_zone(zone or "UTC"), cluster=_named(cluster), tenant=_word(tenant), project=_word(project))
    places = read_inventory(inventory) if inventory is not None else {}
    with destination(cluster, "slurm", out, url, token_file, ca_file, store, once or file is not None) as to:
        if file is not None:
            collected, problems = read_file(file, site, places, datetime.now(UTC))
            for problem in problems[:20]:
                say(f"slurm: {problem}")
            to.put(collected)
            empty = not (collected.rows or collected.dropped)
            say(f"slurm: {'no record in this file' if empty else to.closing_line(collected.dropped)}")
            if not zone and collected.rows and _is_text(file):
                say("slurm: its times were read as UTC; if they are local, read it into a new store with --zone NAME")
            return
        where = state_file(state, "slurm", cluster, out, url, store)
        if where is None:
            raise LedgerError("--out -", "needs to know how far it is", "Next: --state FILE, or --file")
        source = _slurm_source(site, sacct, squeue, scontrol, rest, rest_token_file, rest_version, rest_user)
        collector = SlurmCollector(source, site, places, where)
        dropped: Counter[str] = Counter()
        with _stopping() as stop:
            while True:
                began = time.monotonic()
                away = collector.away
                try:
                    collected = answered(partial(collector.collect, datetime.now(UTC)), stop, "slurm")
                except InterruptedAskError:
                    if once:
                        raise
                    break
                to.put(collected)
                collector.acknowledge()
                dropped += collected.dropped
                for line in dict.fromkeys(collector.away) if collector.away != away else ():
                    say(f"slurm: {line}")
                if once or stop.wait(max(0.0, every - (time.monotonic() - began))):
                    break
        say(f"slurm: {to.closing_line(dropped)}")
        if once and collector.away:
            raise typer.Exit(2)


def _slurm_source(
    site: Site, sacct: str, squeue: str, scontrol: str, rest: str, token_file: Path | None, version: str, user: str
) -> Source:
    from collectors.slurm.sources import Commands, Rest

    if not rest:
        return Commands(site, tuple(shlex.split(sacct)), tuple(shlex.split(squeue)), tuple(shlex.split(scontrol)))
    if token_file is None and not rest.startswith("unix:"):
        raise LedgerError("--rest", "needs a token", "Next: scontrol token > FILE, and --rest-token-file FILE")
    return Rest(rest, token_file, version, user)


def _is_text(file: Path) -> bool:
    """Whether it is text of sacct, with times as clocks show them; JSON has seconds since 1970."""
    with file.open("rb") as opened:
        return not opened.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"["))


def _word(given: str) -> Word:
    from collectors.slurm.jobs import Word

    if given not in (words := get_args(Word)):
        raise LedgerError(given, "not a word of Slurm's", f"There are: {', '.join(words)}")
    return cast("Word", given)


def _named(cluster: str) -> str:
    if not cluster:
        raise LedgerError("--cluster", "the cluster has no name", "Name it as the agents on its nodes do")
    return cluster


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise LedgerError(f"--zone {name}", "no such time zone", "Europe/Berlin fits") from None


def _inventory(path: Path | None, devices: Callable[[], list[Row]], cluster: str) -> Callable[[], dict[str, list[Row]]]:
    def known() -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in _read_devices(path) if path is not None else devices():
            if row.get("node") and row.get("device_id") and row.get("cluster", cluster) == cluster:
                found.setdefault(str(row["node"]), []).append(row)
        return found

    return known


def _read_devices(path: Path) -> list[Row]:
    """The last row of each device in a file of JSON lines; lines of other record types are ignored."""
    last: dict[str, Row] = {}
    # Not `splitlines`: a name that a user wrote may contain what it treats as a line break.
    for number, line in enumerate(path.read_bytes().rstrip(b"\n").split(b"\n"), 1):
        try:
            row = parse_json(line)
            if row.pop("record", "devices") == "devices":
                _check_numbers(row)
                last[row["device_id"]] = row
        except (ValueError, AttributeError, KeyError, TypeError):
            raise LedgerError(
                f"{path}, line {number}", "no device row", "Each line is a JSON object with device_id"
            ) from None
    return [row for row in last.values() if row.get("state") != "removed"]


def _check_numbers(row: Row) -> None:
    """Errors: ValueError if its units or memory are said, but are not whole numbers."""
    for name, least in (("units", 1), ("memory_bytes", 0)):
        if (number := row.get(name)) is not None and (type(number) is not int or number < least):
            raise ValueError(name)


async def _watch(watcher: Watcher, api: Api, once: bool) -> None:
    try:
        await watcher.run(once)
    finally:
        await api.close()


def _run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine to its end, or to SIGINT or SIGTERM."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the process."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop_on(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop_on)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
