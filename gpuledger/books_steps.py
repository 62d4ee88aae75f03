"""The last steps of filling a store, shared by the demo and the Prometheus import: close the books, verify them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpuledger.steps import Steps
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.verify import VerifyReport


def close_books(store: Store, steps: Steps, until: datetime | None = None) -> None:
    """until: as in `billing.close.close`."""
    from billing.close import close

    with steps.step("Close") as step:
        report = close(
            store,
            until=until,
            now=datetime.now(UTC),
            on_progress=lambda what, done, total: step.update(done, total, f"{what}: {done:,} of {total:,} hours"),
        )
        step.update(detail=f"{report.checked:,} hours attributed and priced")


def prove_books(store: Store, steps: Steps) -> VerifyReport:
    from billing.verify import verify

    with steps.step("Verify") as step:
        step.update(detail="proving that nothing is lost")
        proof = verify(store)
        verdict = "balance to the last GPU-second" if proof.balanced else f"FAIL in {len(proof.failures):,} places"
        step.update(detail=f"{proof.device_hours:,} books of a device and hour {verdict}")
    return proof
