"""`gpuledger tenants kubernetes`: what a cluster is to know of the scheduler's tenants, and whether it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger.commands.tenants import tenants
from gpuledger.output import print_lines, say
from warehouse.errors import LedgerError

if TYPE_CHECKING:
    from collectors.kubernetes.direct import Cluster
    from scheduler.kubernetes.tenancy import Enforcer

ESTABLISHED_SECONDS = 30.0
"""Within which Gatekeeper makes a template's kind."""


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
    enforcer = _enforcer(cluster)
    wanted = tenancy.wanted(settings, cluster.list("/api/v1/namespaces"), resource, enforcer)
    say(*wanted.notes) if wanted.notes else None
    if not check and not apply:
        yaml.safe_dump_all(wanted.objects, sys.stdout, sort_keys=False, width=120)
        return
    if apply:
        _apply(cluster, wanted.objects, force)
    if lines := tenancy.drift(wanted.objects, _there(cluster, enforcer, wanted.objects)):
        print_lines(*lines)
        raise typer.Exit(1)


def _enforcer(cluster: Cluster) -> Enforcer:
    from collectors.kubernetes.direct import NotThere
    from collectors.kubernetes.objects import items
    from scheduler.kubernetes.tenancy import POLICIES_GROUP, TEMPLATES_GROUP, Enforcer

    for group, resource, found in (
        (POLICIES_GROUP, "validatingadmissionpolicies", Enforcer.ADMISSION_POLICY),
        (TEMPLATES_GROUP, "constrainttemplates", Enforcer.GATEKEEPER),
    ):
        try:
            served = items(cluster.get(f"/apis/{group}"), "resources")
        except NotThere:
            continue
        if any(one.get("name") == resource for one in served):
            return found
    return Enforcer.NONE


def _apply(cluster: Cluster, wanted: Sequence[dict[str, Any]], force: bool) -> None:
    """All that can be. Errors: LedgerError, of the last that could not; of those before it is a line each."""
    refused: list[LedgerError] = []
    for one in wanted:
        try:
            _apply_one(cluster, one, force)
        except _RefusedError as error:
            refused.append(error)
    say(*map(str, refused[:-1]), f"applied {len(wanted) - len(refused)} objects")
    if refused:
        raise refused[-1]


class _RefusedError(LedgerError):
    """The cluster does not take one of the objects."""


def _apply_one(cluster: Cluster, one: dict[str, Any], force: bool) -> None:
    from collectors.kubernetes.direct import FieldConflict, Forbidden, Invalid, NotThere
    from scheduler.kubernetes import tenancy

    deadline, called = time.monotonic() + ESTABLISHED_SECONDS, tenancy.described(one)
    while True:
        try:
            cluster.apply(tenancy.path_of(one), one, tenancy.MANAGER, force)
            return
        except FieldConflict as error:
            next_step = "See who has it (kubectl get -o yaml --show-managed-fields), or overrule them: --force"
            raise _RefusedError(called, error.what, next_step) from None
        except Invalid as error:
            delete = f"kubectl delete priorityclass {one['metadata']['name']}"
            next_step = f"Its value cannot be changed: {delete} (pods keep theirs), and apply again"
            raise _RefusedError(called, error.what, next_step if one["kind"] == "PriorityClass" else "") from None
        except Forbidden as error:
            raise _RefusedError(called, error.what, error.next_step) from None
        except NotThere as error:
            if one["kind"] != tenancy.CONSTRAINT or not error.resource:
                raise
            if time.monotonic() > deadline:
                what = f"Gatekeeper did not make its kind of the template within {ESTABLISHED_SECONDS:g} s"
                next_step = f"See the status of constrainttemplate {tenancy.CONSTRAINT.lower()}, and apply again"
                raise LedgerError(called, what, next_step) from None
            time.sleep(0.5)


def _there(cluster: Cluster, enforcer: Enforcer, wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the cluster has of our objects, and of those that bear our names."""
    from collectors.kubernetes.direct import NotThere
    from collectors.kubernetes.objects import child, name, namespace
    from scheduler.kubernetes import tenancy

    named = {(one["kind"], namespace(one), name(one)) for one in wanted}
    found = []
    for path, (version, kind) in tenancy.lists(enforcer).items():
        try:
            listed = cluster.list(path)
        except NotThere:
            if kind != tenancy.CONSTRAINT:
                raise
            # Gatekeeper makes this kind when the template is applied.
            listed = []
        for one in listed:
            ours = child(one, "metadata", "labels").get(tenancy.MARK) == tenancy.MANAGER
            if ours or (kind, namespace(one), name(one)) in named:
                # Items of a list do not say what they are.
                found.append({**one, "apiVersion": version, "kind": kind})
    return found
