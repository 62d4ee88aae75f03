"""Which of several operators acts: the one that a Lease in the cluster names. Pure.

Who holds it renews it, and acts no longer than DEADLINE_SECONDS after it last asked for a renewal that was granted;
others take it over when they have seen it unchanged for as long as it says, which is longer. Clocks of two machines are
never compared. It also names the log by which its holder decides: an operator with another log never takes it over,
since it knows nothing of the jobs that run.

Source: k8s.io/client-go tools/leaderelection
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from collectors.kubernetes.objects import Object, child, text
from scheduler.kubernetes.elastic_jobs import GROUP

LEASE_SECONDS = 15
"""For which a holder that is not heard of is waited for."""
DEADLINE_SECONDS = 10.0
"""After which it acts no more, if no renewal was granted. What it asked for until then is done or refused before
another begins."""
LOG = f"{GROUP}/log"
"""Annotation: which log its holder decides by."""
NAME = "gpuledger-operator-leader"
"""Of the Lease (deploy/kubernetes/operator/rbac.yaml)."""


class Election:
    """identity: of this process.   log: by which it would decide.   Times are seconds that only go on.

    until: it may act before that.   waits: why it may not, in words.   successor: who took over what it held.
    """

    def __init__(self, identity: str, log: str) -> None:
        self.identity, self.log = identity, log
        self.until = float("-inf")
        self.waits = "the lease has not been read yet"
        self.successor = ""
        self._has_held = False
        self._seen: tuple[str, str, str] | None = None
        self._seen_at = float("-inf")
        self._lasts: float = LEASE_SECONDS

    def next(self, lease: Object | None, now: float, today: datetime) -> Object | None:
        """What to write now; None: nothing.   lease: as it is; None: there is none.   now: when it was asked for."""
        if lease is None:
            if self._seen is not None and self._seen[0] and now < self._seen_at + self._lasts:
                self.waits = "the lease was deleted while another held it"
                return None
            return self._body({}, today, taken=True)
        spec = child(lease, "spec")
        holder, of_log = text(spec, "holderIdentity"), text(child(lease, "metadata", "annotations"), LOG)
        if holder == self.identity:
            return self._body(lease, today)
        if self._has_held and holder:
            self.successor = holder
        record = (holder, text(spec, "renewTime"), text(child(lease, "metadata"), "resourceVersion"))
        if record != self._seen:
            self._seen, self._seen_at = record, now
            seconds = spec.get("leaseDurationSeconds")
            self._lasts = float(seconds) if isinstance(seconds, int) and seconds > 0 else LEASE_SECONDS
        if of_log not in ("", self.log):
            self.waits = (
                f"the lease is of another log ({of_log}, last held by {holder or 'nobody'}; this one is {self.log})"
            )
            return None
        if holder and now < self._seen_at + self._lasts:
            self.waits = f"{holder} holds the lease"
            return None
        return self._body(lease, today, taken=True)

    def granted(self, asked_at: float) -> None:
        """What was to be written, was."""
        self.until, self.waits, self._has_held, self._seen = asked_at + DEADLINE_SECONDS, "", True, None

    def left(self, now: float) -> float:
        """Seconds for which it may act."""
        return self.until - now

    def release(self, lease: Object, today: datetime) -> Object | None:
        """What to write for others not to wait; None: it is not ours. Nothing may be done after that."""
        self.until = float("-inf")
        if text(child(lease, "spec"), "holderIdentity") != self.identity:
            return None
        found = self._body(lease, today)
        return {**found, "spec": {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}

    def _body(self, before: Object, today: datetime, taken: bool = False) -> dict[str, Any]:
        stamp = today.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict(child(before, "spec"))
        if taken:
            spec |= {"acquireTime": stamp, "leaseTransitions": int(spec.get("leaseTransitions", 0)) + bool(before)}
        spec |= {"holderIdentity": self.identity, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": stamp}
        metadata = {key: one for key, one in child(before, "metadata").items() if key != "managedFields"}
        metadata |= {"name": NAME, "annotations": {**child(metadata, "annotations"), LOG: self.log}}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
