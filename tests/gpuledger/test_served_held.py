"""Held pushes over a store, and over the server that holds it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from access.opening import open_access
from access.settings import AccessSettings
from billing import held
from billing.held import Effect, effect
from ingest.held import HeldPush, hash_of, hold
from ingest.permissions import Doubt
from tests.dashboards.site import fill, serving, token_of
from tests.draws import seldom
from tests.gpuledger.running import listed, refused, run
from tests.stores import fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store, open_store

pytestmark = pytest.mark.usefixtures("engine_stays")


@seldom(6, "held pushes are listed shown and decided")
def test_held_pushes_are_listed_shown_and_decided_over_a_store_and_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"chdb://{tmp_path / 'store'}"
    rows = {
        device: {
            "ts": datetime(2026, 10, 1, 12, tzinfo=UTC), "cluster": "c1", "node": "n1", "device_id": device,
            "model": "CHEAP", "units": 1, "pool": "train", "state": "unavailable",
        }
        for device in ("GPU-a", "GPU-b")
    }  # fmt: skip
    with fresh_store(tmp_path / "store", fill) as opened, open_access(opened) as people:
        token = token_of(people, "finance")
        doubt = Doubt("issued_month", "reaches into 2026-10, which is issued")
        hold(opened, "n1", RECORD_TYPES["devices"], "push:n1", {hash_of(row): (row, doubt) for row in rows.values()})
    waits = {one["subject"]: one for one in listed("held list", store)}
    assert set(waits) == {"c1/GPU-a", "c1/GPU-b"}
    before = listed("ledger --by tenant", store)
    computed: dict[str, Effect] = {}

    def kept(store: Store, push: HeldPush) -> Effect:
        computed[push.id] = effect(store, push)
        return computed[push.id]

    with monkeypatch.context() as patch:
        patch.setattr(held, "effect", kept)
        shown = json.loads(run(f"held show {waits['c1/GPU-a']['id']}", "--store", store, "--format", "json").stdout)
    (change,) = [one for one in shown["changes"] if one["tenant"] == "vision"]
    assert change["issued"].startswith("GL-2026-")
    assert listed("ledger --by tenant", store) == before, "looking changes nothing"
    assert (change["month"], Decimal(change["cost_after"]) < Decimal(change["cost_before"])) == ("2026-10", True)
    with monkeypatch.context() as patch:  # what was computed before, at length
        patch.setattr(held, "effect", lambda store, push: computed[push.id])
        text = run(f"held show {waits['c1/GPU-a']['id']}", "--store", store)
    assert "A yes would change" in text.stdout
    assert "issued_month: reaches into 2026-10" in text.stderr
    with (
        open_store(store) as opened,
        serving(opened, AccessSettings(sign_in=True)) as url,
    ):
        monkeypatch.setenv("GPULEDGER_TOKEN", token)
        assert {one["id"] for one in listed("held list", url)} == {one["id"] for one in waits.values()}
        same = json.loads(run(f"held show {waits['c1/GPU-a']['id']}", "--store", url, "--format", "json").stdout)
        assert [one["difference"] for one in same["changes"]] == [one["difference"] for one in shown["changes"]]
        assert "accepted by finance" in run(f"held accept {waits['c1/GPU-a']['id']} --why seen", "--store", url).stderr
        assert "does not exist" in refused("held accept nothing", "--store", url)
        assert "a server knows who you are" in refused("held accept x --author bob", "--store", url)
        (entry,) = listed("audit --action held", url)
        assert (entry["actor"], entry["action"], entry["reason"]) == ("finance", "held.accept", "seen")
    done = run(f"held refuse {waits['c1/GPU-b']['id']} --author bob --why nonsense", "--store", store)
    assert "refused by bob" in done.stderr
    assert run("held list", "--store", store).stderr == "nothing waits for you\n"
    states = {one["subject"]: (one["state"], one["decided_by"]) for one in listed("held list --all", store)}
    assert states == {"c1/GPU-a": ("accepted", "finance"), "c1/GPU-b": ("refused", "bob")}
    with open_store(store) as opened:
        assert opened.value("SELECT count() FROM devices WHERE model = 'CHEAP'") == 1
