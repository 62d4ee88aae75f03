"""Backups by a server: in its own folder, by those who may, and by nobody's SQL."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from access.opening import open_access
from access.settings import AccessSettings
from gpuledger.client import ApiError, Client
from tests.dashboards.site import fill, serving, token_of
from tests.stores import fresh_store
from warehouse.backup import restore
from warehouse.store import open_store


def test_a_server_makes_backups_for_its_operators_alone(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    fresh_store(tmp_path / "store", fill).close()
    with open_store(f"chdb://{tmp_path / 'store'}", folder) as store, open_access(store) as people:
        tokens = {name: token_of(people, name) for name in ("operator", "analyst", "vision")}
        with serving(store, AccessSettings(sign_in=True)) as url:
            with Client(url, tokens["operator"]) as operator:
                made = operator.back_up()
                assert operator.backups() == [made]
            for name in ("analyst", "vision"):
                with Client(url, tokens[name]) as other, pytest.raises(ApiError, match="may not do this"):
                    other.back_up()
            for statement in (f"BACKUP TABLE devices TO File('{folder}/stolen')", "SELECT * FROM system.backups"):
                answer = httpx.post(f"{url}/sql", content=statement, headers={"X-ClickHouse-Key": tokens["analyst"]})
                assert answer.status_code in (400, 403), answer.text
            assert [path.name for path in folder.glob("stolen*")] == []
            (entry,) = store.rows("SELECT actor, object FROM audit WHERE action = 'backup.make'")
            assert entry == {"actor": "operator", "object": made.name}
            hours = store.value("SELECT count() AS hours FROM closed_hours")
    restore(folder, made.name, tmp_path / "again")
    with open_store(f"chdb://{tmp_path / 'again'}") as again:
        assert again.value("SELECT count() AS hours FROM closed_hours") == hours > 0


def test_a_server_without_a_folder_says_so(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store", fill) as store, open_access(store) as people:
        token = token_of(people, "operator")
        with serving(store, AccessSettings(sign_in=True)) as url, Client(url, token) as operator:
            with pytest.raises(ApiError, match="started without a folder"):
                operator.back_up()
            with pytest.raises(ApiError, match="started without a folder"):
                operator.backups()
