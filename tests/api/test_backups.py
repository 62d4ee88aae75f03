"""Backups by a server: in its own folder, by those who may, and by nobody's SQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from access.opening import open_access
from access.settings import AccessSettings
from api.metrics import of_backups
from gpuledger.client import ApiError, Client
from tests.dashboards.site import fill, serving, token_of
from tests.gpuledger.running import refused, run
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from tests.warehouse.s3_server import KEY, S3, SECRET, s3_server
from warehouse import backup
from warehouse.backup import WHOLE, backups, restore
from warehouse.bucket import bucket_of
from warehouse.errors import StoreError
from warehouse.store import Store, open_store


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in (("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET), ("EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with s3_server("ledgers") as server:
        yield server


def test_a_server_makes_backups_for_its_operators_alone(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    fresh_store(tmp_path / "store", fill).close()
    with open_store(f"chdb://{tmp_path / 'store'}", folder) as store, open_access(store) as people:
        tokens = {name: token_of(people, name) for name in ("operator", "analyst", "vision")}
        with serving(store, AccessSettings(sign_in=True)) as url:
            with Client(url, tokens["operator"]) as operator:
                made = operator.back_up()
                assert operator.backups() == [made]
                time.sleep(1)  # a backup has the second as its name
                assert operator.back_up(check=False).unchecked and not made.unchecked
            for name in ("analyst", "vision"):
                with Client(url, tokens[name]) as other, pytest.raises(ApiError, match="may not do this"):
                    other.back_up()
            for statement in (f"BACKUP TABLE devices TO File('{folder}/stolen')", "SELECT * FROM system.backups"):
                answer = httpx.post(f"{url}/sql", content=statement, headers={"X-ClickHouse-Key": tokens["analyst"]})
                assert answer.status_code in (400, 403), answer.text
            assert [path.name for path in folder.glob("stolen*")] == []
            entries = store.rows("SELECT actor, object FROM audit WHERE action = 'backup.make' ORDER BY at")
            assert entries[0] == {"actor": "operator", "object": made.name}
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


def test_a_server_copies_them_to_its_bucket(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a command that wants a copy somewhere else fails, though the backup is made."""
    folder, bucket = tmp_path / "backups", f"s3://ledgers/site?endpoint={s3.url}&region=us-east-1"
    fresh_store(tmp_path / "store", fill).close()
    with open_store(f"chdb://{tmp_path / 'store'}", folder, bucket) as store, open_access(store) as people:
        monkeypatch.setenv("GPULEDGER_TOKEN", token_of(people, "operator"))
        with serving(store, AccessSettings(sign_in=True)) as url:
            monkeypatch.setenv("GPULEDGER_BACKUPS_BUCKET", bucket)
            assert "to s3://ledgers/site" in run("backup", "--store", url).output
            monkeypatch.setenv("GPULEDGER_BACKUPS_BUCKET", "s3://elsewhere")
            monkeypatch.setattr("warehouse.backup.MOST_CHANGED", 9)
            time.sleep(1)  # a backup has the second as its name
            assert "is made, but its server copies to s3://ledgers/site" in refused("backup", "--store", url)
            s3.fail_after = 0
            time.sleep(1)
            assert "refuses" in refused("backup", "--store", url)
            s3.fail_after = None
    made = bucket_of(bucket).backups()
    assert [one.name for one in made] == [one.name for one in backups(folder)][:2]
    assert len(backups(folder)) == 3, "what could not be copied is in the folder, and copied with the next one"
    assert len(bucket_of(bucket).copy(folder)) == 1


def test_a_server_keeps_so_many_as_it_was_told_and_its_metrics_say_how_old_they_are(tmp_path: Path, s3: S3) -> None:
    """As found: it removed none, nor did any command, and that no backup was made for a week was nowhere to be seen."""
    folder, bucket = tmp_path / "backups", f"s3://ledgers/site?endpoint={s3.url}&region=us-east-1"
    fresh_store(tmp_path / "store", fill).close()
    with open_store(f"chdb://{tmp_path / 'store'}", folder, bucket, 1) as store, open_access(store) as people:
        token = token_of(people, "operator")
        with serving(store, AccessSettings(sign_in=True)) as url, Client(url, token) as operator:
            assert [one.series for one in of_backups(store)] == [{}, {}]
            first = operator.back_up()
            assert [one.series for one in of_backups(store)] == [{(): first.made_at.timestamp()}] * 2
            s3.fail_after = len(s3.puts)
            time.sleep(1)  # a backup has the second as its name
            with pytest.raises(ApiError, match=r"refuses .*\. 20[-0-9TZ]+ is in the server's folder"):
                operator.back_up()
            second = operator.backups()[-1]
            assert [one.series[()] for one in of_backups(store)] == [one.made_at.timestamp() for one in (second, first)]
            assert len(operator.backups()) == 2, "while the bucket has not the newest, none is removed"
            s3.fail_after = None
            time.sleep(1)
            last = operator.back_up()
            assert operator.backups() == [last.model_copy(update={"bucket": ""})]
            assert [one.name for one in bucket_of(bucket).backups()] == [last.name]


def test_only_the_copy_of_what_changed_makes_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: nobody could close, issue, silence an alert or change a rule while a server copied everything."""
    fresh_store(tmp_path / "store", fill).close()
    closed: list[int] = []

    def copy(store: Store, path: Path, *more: str) -> int:
        if path.name.startswith(WHOLE):
            by = {"Authorization": f"Bearer {token}"}
            closed.append(httpx.post(f"{url}/api/v1/close", headers=by, json={}, timeout=PATIENCE_SECONDS).status_code)
        return real(store, path, *more)

    real = backup._copy
    monkeypatch.setattr(backup, "_copy", copy)
    with open_store(f"chdb://{tmp_path / 'store'}", tmp_path / "backups") as store, open_access(store) as people:
        token = token_of(people, "operator")
        with serving(store, AccessSettings(sign_in=True)) as url, Client(url, token) as operator:
            operator.back_up()
    assert closed == [200]


def test_a_failed_backup_is_in_the_log(tmp_path: Path, s3: S3, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asked for it may have hung up. A bucket that is away costs no backup in the folder."""
    fresh_store(tmp_path / "store", fill).close()
    bucket = f"s3://nowhere/site?endpoint={s3.url}&region=us-east-1"
    no_bucket = pytest.raises(ApiError, match="there is no bucket nowhere")
    with (
        open_store(f"chdb://{tmp_path / 'store'}", tmp_path / "backups", bucket) as store,
        open_access(store) as people,
    ):
        token = token_of(people, "operator")
        with serving(store, AccessSettings(sign_in=True)) as url, Client(url, token) as operator, no_bucket:
            operator.back_up()
    (line,) = [one.message for one in caplog.records if one.name == "api.routes.backups"]
    (made,) = backups(tmp_path / "backups")
    what = f"there is no bucket nowhere. {made.name} is in the server's folder"
    assert line == f"backup: s3://nowhere/site: {what}. Create it, or name another"


def test_a_folder_for_the_backups_of_a_clickhouse_server_is_refused() -> None:
    """As found: it was taken, and each backup then failed, for the server had been started without a folder."""
    with pytest.raises(StoreError, match="a ClickHouse server copies its own"):
        open_store("clickhouse://nowhere.example.org", Path("/backups"))


def test_a_bucket_without_a_folder_is_refused_at_the_start() -> None:
    assert "Name it with --backups" in refused("server --tokens x.yaml --backups-bucket s3://ledgers")
