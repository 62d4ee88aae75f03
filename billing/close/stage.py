"""Names of a close's working tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warehouse.store import Params

WHICH = "cityHash64(toString(cluster), allocation_id) IN {alive:Identifier}"
"""A condition on a working table, which has no `allocation_hash`: the allocations that are looked at."""


@dataclass(frozen=True)
class Stage:
    """Names of the working tables of one close, or of one portion of it; they exist only while it runs."""

    run: int
    portion: str = ""
    of_alive: bool = False
    fresh_ms: int = 0
    before: Params | None = None
    """of_alive: only the allocations in the working table `alive` are looked at (billing.close.carried).
    fresh_ms: `batches` has only those asked for by `read_too`; what is older is read (billing.close.facts); 0: all.
    before: what the close that this one follows read, as parameters (billing.close.facts); None: not asked yet."""

    def __call__(self, name: str) -> str:
        return f"close_{self.run}_{self.portion}{name}"

    def of_portion(self, hour: int) -> Stage:
        """Names apart from those of other portions, which begin with other hours."""
        return replace(self, portion=f"{self.portion}{hour}_")

    def names(self, *names: str) -> dict[str, str]:
        return {name: self(name) for name in names}
