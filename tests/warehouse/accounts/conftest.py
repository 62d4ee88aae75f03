"""Books on disk, which no process holds, so that processes with other rights can open them one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboards.site import fill, promise
from tests.stores import fresh_store
from tests.warehouse.accounts.as_account import asked_as
from warehouse.accounts.declaration import TenantUser
from warehouse.accounts.statements import statements

BY_OTHERS = (
    "INSERT INTO events "
    "(ts, cluster, allocation_id, workload_id, event, tenant, node, device_id, actor, message, reason) VALUES "
    + ", ".join(
        f"('2026-10-02 13:00:0{second}', 'c1', '1', 'w-vision', '{event}', 'vision', 'n1', 'GPU-a', 'w-speech', "
        f"'for w-speech', '{reason}')"
        for second, (event, reason) in enumerate((("preempted", ""), ("submitted", "Requeued"), ("resized", "")))
    )
)
"""What another tenant's job did to one of vision's."""


@pytest.fixture(scope="session")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With what `init` makes beside accounts: the views of tenants' own users, and definers."""
    folder = tmp_path_factory.mktemp("accounts")
    with fresh_store(folder / "store", fill, promise) as store:
        store.command(BY_OTHERS)
    made = [
        one
        for one in statements("gpuledger", {}, [TenantUser("vera", ("vision",))])
        if one.startswith(("CREATE DATABASE", "CREATE OR REPLACE VIEW", "ALTER TABLE"))
    ]
    assert len(made) == 2 + 3 + 8
    with asked_as(None, folder / "store", folder) as admin:
        for one in made:
            admin.ask(one)
    return folder / "store"
