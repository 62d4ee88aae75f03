"""Maps OpenCost's terms to ours."""

from __future__ import annotations

from warehouse.errors import LedgerError

PROPERTIES = ("cluster", "node", "namespace", "pod")
"""What distinguishes allocations; the ledger's cluster, node, project and workload."""
LABELS = ("tenant", "queue", "model", "pool", "device")
"""The ledger's own dimensions, as labels of the pod."""
NOT_KNOWN = (
    "annotation", "container", "controller", "controllerkind", "controllername", "controllernamespace", "service",
    "deployment", "statefulset", "daemonset", "job", "department", "environment", "owner", "product", "team",
    "providerid",
)  # fmt: skip
"""Properties of OpenCost that the ledger does not hold: everything is `__unallocated__` there, as OpenCost has it."""
IDLE = "__idle__"
UNALLOCATED = "__unallocated__"
UNAVAILABLE = "__unavailable__"
"""Ours: time in which a device was down or drained. OpenCost has it among the idle time."""


class QueryError(LedgerError):
    """An invalid parameter of the request; other errors are the ledger's own."""
