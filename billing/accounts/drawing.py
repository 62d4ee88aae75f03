"""The order in which grants pay for a month's amount. Pure.

A month's amount accrues over the month in proportion to the ledger's costs (evenly, if there are none). A grant pays
for what accrues during [starts_at, expires_at); of several grants, the one that expires first pays first, then the
older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise


@dataclass(frozen=True)
class Grant:
    """An amount paid in advance, for what accrues during [starts_at, expires_at)."""

    id: str
    tenant: str
    amount: Decimal
    currency: str
    starts_at: datetime
    expires_at: datetime
    author: str = ""
    reason: str = ""
    revision: int = 1
    at: datetime | None = None

    def pays_at(self, at: datetime) -> bool:
        return self.starts_at <= at < self.expires_at


def in_order(grants: Iterable[Grant]) -> list[Grant]:
    """The order of drawing; it does not depend on the order in which grants were entered."""
    return sorted(grants, key=lambda grant: (grant.expires_at, grant.starts_at, grant.id))


def pieces(grants: Iterable[Grant], start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """[start, end) cut where a grant starts or expires, so that in each piece the same grants pay."""
    bounds = {at for grant in grants for at in (grant.starts_at, grant.expires_at) if start < at < end}
    cuts = [start, *sorted(bounds), end]
    return [(first, last) for first, last in pairwise(cuts) if first < last]


def left_at(grants: Iterable[Grant], left: Mapping[str, Fraction], at: datetime) -> Fraction:
    """What the grants that pay at an instant have left."""
    return sum((left[grant.id] for grant in grants if grant.pays_at(at)), Fraction(0))


def draw(
    grants: Sequence[Grant], left: MutableMapping[str, Fraction], at: datetime, due: Fraction
) -> dict[str, Fraction]:
    """Takes the amount due from the grants (in order) that pay at an instant; returns what each of them paid."""
    given: dict[str, Fraction] = {}
    for grant in grants:
        amount = min(left[grant.id], due - sum(given.values())) if grant.pays_at(at) else Fraction(0)
        if amount > 0:
            left[grant.id] -= amount
            given[grant.id] = amount
    return given


def accrued(due: Fraction, costs: Sequence[Fraction], spans: Sequence[tuple[datetime, datetime]]) -> list[Fraction]:
    """How much of what is due accrues in each span: as the costs do; evenly over time where there are none."""
    weights = (
        list(costs) if sum(costs) else [Fraction((end - start) // (end - start).resolution) for start, end in spans]
    )
    whole = sum(weights)
    return [due * weight / whole for weight in weights] if whole else [Fraction(0) for _ in weights]
