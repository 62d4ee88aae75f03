"""`gpuledger tenants kubernetes`: what a cluster is to know of the scheduler's tenants, and whether it does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger.commands.tenants import tenants
from gpuledger.output import print_lines, say
from warehouse.errors import LedgerError

if TYPE_CHECKING:
    from collectors.kubernetes.direct import Cluster


def register(app: typer.Typer) -> None:
    tenants.command("kubernetes")(kubernetes)


def kubernetes(
    config: Annotated[Path, typer.Option("--config", help="The scheduler's settings (YAML).", dir_okay=False)],
    check: Annotated[bool, typer.Option("--check", help="Compare with the cluster; exit 1 if it differs.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Apply them to the cluster.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --apply: also fields of other managers.")] = False,
    resource: Annotated[str, typer.Option("--resource", help="In which nodes offer GPUs.")] = "nvidia.com/gpu",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", help="Of the API server.", show_default="KUBECONFIG, ~/.kube/config", dir_okay=False
        ),
    ] = None,
    context: Annotated[str, typer.Option("--context", help="Of the kubeconfig.", show_default="its current one")] = "",
) -> None:
    """Quotas, limits, priorities and admission policies for the scheduler's tenants, as Kubernetes objects: print them,
    check or apply them."""
    import yaml

    from collectors.kubernetes.direct import Cluster
    from scheduler.kubernetes import tenancy
    from scheduler.settings import load_settings

    if (check and apply) or (force and not apply):
        raise LedgerError(
            "--check, --apply, --force", "do not fit together", "Give --check, --apply, or --apply --force"
        )
    settings = load_settings(config)
    cluster = Cluster(kubeconfig, context)
    policies = _has_policies(cluster, tenancy.POLICIES_GROUP)
    wanted = tenancy.wanted(settings, cluster.list("/api/v1/namespaces"), resource, policies)
    say(*wanted.notes) if wanted.notes else None
    if not check and not apply:
        yaml.safe_dump_all(wanted.objects, sys.stdout, sort_keys=False, width=120)
        return
    if apply:
        _apply(cluster, wanted.objects, force)
    if lines := tenancy.drift(wanted.objects, _there(cluster, policies, wanted.objects)):
        print_lines(*lines)
        raise typer.Exit(1)


def _has_policies(cluster: Cluster, group: str) -> bool:
    from collectors.kubernetes.direct import NotThere
    from collectors.kubernetes.objects import items

    try:
        served = items(cluster.get(f"/apis/{group}"), "resources")
    except NotThere:
        return False
    return any(one.get("name") == "validatingadmissionpolicies" for one in served)


def _apply(cluster: Cluster, wanted: Sequence[dict[str, Any]], force: bool) -> None:
    from collectors.kubernetes.direct import FieldConflict
    from scheduler.kubernetes import tenancy

    for one in wanted:
        try:
            cluster.apply(tenancy.path_of(one), one, tenancy.MANAGER, force)
        except FieldConflict as error:
            next_step = "See who has it (kubectl get -o yaml --show-managed-fields), or overrule them: --force"
            raise LedgerError(tenancy.described(one), error.what, next_step) from None
    say(f"applied {len(wanted)} objects")


def _there(cluster: Cluster, policies: bool, wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the cluster has of our objects, and of those that bear our names."""
    from collectors.kubernetes.objects import child, name, namespace
    from scheduler.kubernetes import tenancy

    named = {(one["kind"], namespace(one), name(one)) for one in wanted}
    found = []
    for path, (version, kind) in tenancy.lists(policies).items():
        for one in cluster.list(path):
            ours = child(one, "metadata", "labels").get(tenancy.MARK) == tenancy.MANAGER
            if ours or (kind, namespace(one), name(one)) in named:
                # Items of a list do not say what they are.
                found.append({**one, "apiVersion": version, "kind": kind})
    return found
