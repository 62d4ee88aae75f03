"""Places a replica or a gang by a policy's scores, which are cached by request and updated for changed nodes only."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np

from scheduler.model import Grant, Request
from scheduler.placement.cluster import BoolArray, Cluster, IntArray
from scheduler.placement.shapes import Shape
from scheduler.placement.topology import domains_for

UNFIT = -1
"""Score of a node on which the request does not fit; all others are 0 or more."""


class Scorer(Protocol):
    """A policy's view of one shape."""

    def scores(self, nodes: IntArray) -> IntArray:
        """A score of 0 or more for each of these nodes, on all of which the shape fits. Higher is better."""

    def devices(self, node: int) -> tuple[int, ...]:
        """Which devices of the node to take. Not asked for MIG profiles and requests without devices."""


class Policy(Protocol):
    """How to choose among the nodes and devices on which a request fits.   draws: whether the choice is random."""

    draws: bool = False

    def scorer(self, shape: Shape) -> Scorer: ...

    def pick(self, scores: IntArray) -> int:
        """The node to take, given a score by node (UNFIT where it does not fit); -1 if there is none."""

    def begin(self, moment: float) -> None:
        """Reseeds a random policy from the moment, so that its choices depend on nothing chosen before."""
        return  # for policies that are not random

    def aside(self) -> AbstractContextManager[None]:
        """A context whose choices do not affect a random policy's later ones."""
        return nullcontext()


class Column:
    """The scores of one shape under one policy, as of the cluster's clock `seen` and its `version`."""

    def __init__(self, shape: Shape, policy: Policy) -> None:
        self.shape, self.scorer, self.seen, self.version = shape, policy.scorer(shape), -1, -1
        self.values: IntArray = np.full(len(shape.cluster.nodes), UNFIT, dtype=np.int64)

    def refreshed(self) -> IntArray:
        cluster = self.shape.cluster
        if self.version != cluster.version:
            changed = cluster.changed_since(self.seen)
            self.values[changed] = UNFIT
            fitting = changed[self.shape.fits(changed)]
            if fitting.size:
                self.values[fitting] = self.scorer.scores(fitting)
            self.seen, self.version = cluster.clock, cluster.version
        return self.values


def place(cluster: Cluster, request: Request, policy: Policy, among: BoolArray | None = None) -> Grant | None:
    """The grant that the policy likes best, not yet taken; None if the request fits nowhere now.

    among: by node, whether it may be chosen.
    """
    column = _column(cluster, request, policy)
    scores = column.refreshed()
    permitted = column.shape.permitted()
    if permitted is not None:
        among = permitted if among is None else among & permitted
    node = policy.pick(scores if among is None else np.where(among, scores, UNFIT))
    if node < 0:
        return None
    if request.devices and request.profile:
        return column.shape.instance_grant(node)
    return column.shape.grant(node, column.scorer.devices(node) if request.devices else ())


def fits_somewhere(cluster: Cluster, request: Request, policy: Policy) -> bool:
    """Whether `place` would find a grant."""
    column = _column(cluster, request, policy)
    scores, permitted = column.refreshed(), column.shape.permitted()
    return bool((scores if permitted is None else scores[permitted]).max(initial=UNFIT) > UNFIT)


def place_gang(cluster: Cluster, request: Request, replicas: int, policy: Policy) -> tuple[Grant, ...] | None:
    """Takes a grant for each replica, all of them or none; None: they do not fit together, and nothing is taken.

    A required or preferred topology decides on the nodes, the policy on the devices and, without one, on both.
    """
    asked: Hashable = None
    if replicas > 1 and not policy.draws:
        close = request.required_topology, request.preferred_topology
        asked = ("no gang", cluster.shape(request), replicas, *close, policy)
        if cluster.is_known(asked):
            return None
    mark = cluster.mark()
    grants = _placed(cluster, request, replicas, policy)
    if grants is None:
        cluster.rollback(mark)
        return None if asked is None else cluster.known(asked, lambda: None)
    cluster.keep(mark)
    return grants


def _placed(cluster: Cluster, request: Request, replicas: int, policy: Policy) -> tuple[Grant, ...] | None:
    by_node: list[tuple[BoolArray | None, int]] = [(None, replicas)]
    if request.required_topology is not None or request.preferred_topology is not None:
        chosen = domains_for(cluster, request, replicas)
        if chosen is None:
            return None
        by_node = [(_only(cluster, node), count) for node, count in chosen]
    grants = []
    for among, count in by_node:
        for _ in range(count):
            grant = place(cluster, request, policy, among)
            if grant is None:
                return None
            cluster.take(grant, request)
            grants.append(grant)
    return tuple(grants)


def _only(cluster: Cluster, node: int) -> BoolArray:
    among = np.zeros(len(cluster.nodes), dtype=np.bool_)
    among[node] = True
    return among


def _column(cluster: Cluster, request: Request, policy: Policy) -> Column:
    shape = cluster.shape(request)
    column: Column | None = shape.columns.get(policy)
    if column is None:
        column = shape.columns[policy] = Column(shape, policy)
    return column
