"""What recommendations say of themselves: sentences, and apart from them what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SENTENCES = {
    "idle": "give back {devices}: idle for up to {hours} hours on end, {memory} of memory held",
    "idle_empty": "give back {devices}: idle for up to {hours} hours on end, no memory held",
    "idle_unknown": "give back {devices}: idle for up to {hours} hours on end, memory not known",
    "smaller_profile":
        "a MIG instance {profile} of {model} instead of {held}: p99 {p99} of it, {memory} of memory at most",
    "smaller_than_device":
        "a MIG instance {profile} of {model} instead of the whole device: p99 {p99} of it, {memory} of memory at most",
    "fewer_gpus": "{needed} instead of {held} {models}: their p95 sum to {p95} GPUs",
    "fewer_replicas": "{needed} instead of {held} workloads {name}* on {models}: their p95 sum to {p95} GPUs",
    "time_slicing": "one {models} in time-slices for {held} workloads: their p95 sum to {p95} GPUs",
    "unmetered": "metered for {coverage} of the time held, less than {least}",
    "unsampled": "no single stream of samples speaks of {least} of the time held",
    "memory_unknown": "memory is not known, and it might not fit a smaller MIG instance",
    "runs": "{runs} runs, of the costliest: {what}",
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """One of the sentences. values: as texts that are the same in every language; what: a sentence inside it."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)
    what: Said | None = None

    def __str__(self) -> str:
        inner = {"what": str(self.what)} if self.what else {}
        return SENTENCES[self.key].format(**self.values, **inner)
