"""Allocations of a Kubernetes node, from its kubelet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from collectors.attribution.kubelet import PodSource
from collectors.attribution.places import Allocations, Inventory, Place
from collectors.attribution.podresources.client import PodResources
from collectors.attribution.podresources.holdings import ClaimKey, allocations


class KubeletAllocations:
    """Asks PodResources and a source of pods, one after the other, each cycle anew: names are good for no longer.

    claim_places: the places that ResourceSlices tell of (driver, pool, device); asked when a pod has such a claim.
    """

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
