"""Allocations of a Kubernetes node, from its kubelet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from collectors.attribution.kubelet import PodSource
from collectors.attribution.places import Allocations, Inventory, Place
from collectors.attribution.podresources.client import PodResources
from collectors.attribution.podresources.holdings import ClaimKey, allocations


class KubeletAllocations:
    """Reads PodResources and then the pods in each cycle; nothing is cached, because names are reused."""

    def __init__(
        self,
        pod_resources: PodResources,
        pods: PodSource,
        claim_places: Callable[[], Mapping[ClaimKey, Place]] = dict,
    ) -> None:
        self._pod_resources, self._pods, self._claim_places = pod_resources, pods, claim_places

    def allocations(self, inventory: Inventory) -> tuple[Allocations, Counter[str]]:
        """What is held now, and what was dropped of the answer. Errors: CollectorError."""
        snapshot = self._pod_resources.snapshot()
        claimed = self._claim_places() if snapshot.claims else {}
        return allocations(snapshot, self._pods.pods(), inventory, claimed)
