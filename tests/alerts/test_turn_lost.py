"""Whoever stood still for longer than a turn lasts changes no silence any more. The real engine behind HTTP, two
connections as of two processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alerts.silences import _rows, acknowledge, add_silence, end_silence
from billing import audit
from tests.alerts.facts import NOON, ago
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served
from tests.warehouse.losing import lose_turns
from warehouse.store import Store, open_store
from warehouse.turns import TurnLostError


@pytest.mark.parametrize("ends", [False, True])
def test_who_lost_its_turn_changes_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """As found: an acknowledgement took the place of one that another server had taken since."""
    fresh_store(tmp_path / "store").close()
    with served(tmp_path / "store") as url, open_store(url) as first, open_store(url) as second:
        added = add_silence(first, {"node": "n1"}, ago(-60), "ann", "new racks", ago(10))

        def change(store: Store, who: str) -> None:
            if ends:
                end_silence(store, added.id, who, NOON)
            else:
                acknowledge(store, "f2", ago(5), {"alertname": "idle"}, who, "mine", NOON)

        def change_of_another() -> None:
            lose_turns(second)
            change(second, "bob")

        monkeypatch.setattr("alerts.silences._rows", after(_rows, change_of_another))
        with pytest.raises(TurnLostError):
            change(first, "ann")
        acts = [row["actor"] for row in audit.history(first) if row["action"] != "silence.add"]
        assert acts == ["bob"]


def after(function: Callable[..., Any], does: Callable[[], object]) -> Callable[..., Any]:
    """The same function, and what happens after it the first time."""
    left = [does]

    def called(*args: Any, **more: Any) -> Any:
        found = function(*args, **more)
        if left:
            left.pop()()
        return found

    return called
