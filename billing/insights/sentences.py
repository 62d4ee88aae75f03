"""The text of recommendations: sentences, and separately the values in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SENTENCES = {
    "idle": "release {devices}: idle for up to {hours} consecutive hours, with {memory} of memory in use",
    "idle_empty": "release {devices}: idle for up to {hours} consecutive hours, with no memory in use",
    "idle_unknown": "release {devices}: idle for up to {hours} consecutive hours; memory use is unknown",
    "smaller_profile":
        "a {profile} MIG instance of {model} instead of {held}: p99 {p99} of it, at most {memory} of memory",
    "smaller_than_device":
        "a {profile} MIG instance of {model} instead of the whole device: p99 {p99} of it, at most {memory} of memory",
    "fewer_gpus": "{needed} instead of {held} {models}: their p95 values add up to {p95} GPUs",
    "fewer_replicas": "{needed} instead of {held} workloads {name}* on {models}: their p95 values add up to {p95} GPUs",
    "time_slicing": "one time-sliced {models} for {held} workloads: their p95 values add up to {p95} GPUs",
    "unmetered": "metered for {coverage} of the allocated time, less than {least}",
    "unsampled": "no single sample stream covers {least} of the allocated time",
    "memory_unknown": "memory use is unknown and might not fit a smaller MIG instance",
    "runs": "{runs} runs; the costliest: {what}",
}  # fmt: skip


@dataclass(frozen=True)
class Sentence:
    """One of the sentences. values: as texts that are the same in every language; what: a sentence inside it."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)
    what: Sentence | None = None

    def __str__(self) -> str:
        inner = {"what": str(self.what)} if self.what else {}
        return SENTENCES[self.key].format(**self.values, **inner)
