"""Prices through the close: where a charge is split, and what a GPU-hour of each part costs; and the commands."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from billing.close import close
from billing.rates import apply_rate_card, history, parse_rate_card
from billing.verify import verify
from tests.billing.hand_ledger import HOUR_MS, Row, fill
from tests.billing.test_close import START, device, event, put
from tests.billing.test_examples import gpuledger
from tests.stores import fresh_store
from warehouse.store import Store, open_store

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
BATCHES = itertools.count(1)
"""A batch is the same rows for ever."""
DAY = {"from": "08:00", "to": "20:00"}


def card(*rules: dict[str, Any], **keys: Any) -> Any:
    return parse_rate_card({"currency": "EUR", "rates": list(rules), **keys})


def rule(sku: str, price: str, *windows: dict[str, Any], **match: Any) -> dict[str, Any]:
    return {"sku": sku, "price_per_gpu_hour": price, "match": match, **({"windows": list(windows)} if windows else {})}


def hour_of(text: str) -> float:
    """In hours since the tests' first day."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime.fromtimestamp(START / 1000, UTC)) / timedelta(
        hours=1
    )


def held(
    store: Store, since: str, until: str, name: str = "a", gpu: str = "GPU-0", model: str = "L4", **more: Any
) -> None:
    """A job holds a GPU during [since, until)."""
    begin, end, batch = hour_of(since), hour_of(until), next(BATCHES)
    put(store, "devices", [device(gpu, hour=begin, model=model)], batch)
    events = [event(begin, name, "started", device_id=gpu, **more), event(end, name, "finished", **more)]
    put(store, "events", events, batch)


def charges(store: Store, allocation: str = "a") -> list[tuple[str, str, str, str]]:
    """(from, to, sku, price) of what was held, neighbours at one price together."""
    rows = store.rows(
        "SELECT charge_period_start AS since, charge_period_end AS until, sku, contracted_unit_price AS price "
        "FROM ledger WHERE allocation_id = {a:String} ORDER BY since",
        {"a": allocation},
    )
    merged: list[list[Any]] = []
    for row in rows:
        if merged and merged[-1][1] == row["since"] and merged[-1][2] == row["sku"]:
            merged[-1][1] = row["until"]
        else:
            merged.append([row["since"], row["until"], row["sku"], row["price"]])
    return [(f"{a:%d %H:%M}", f"{b:%d %H:%M}", sku, f"{price:.2f}") for a, b, sku, price in merged]


def cost(store: Store) -> float:
    """Of all that was held."""
    total = store.value(
        "SELECT sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units * contracted_unit_price) "
        "/ 3600000 AS cost FROM ledger WHERE allocation_id != ''"
    )
    return round(total, 6)


def closed(store: Store, rates: Any, until: str, verified: bool = True) -> None:
    apply_rate_card(store, rates, "", "", NOW)
    close(store, until=datetime.fromisoformat(until).replace(tzinfo=UTC), now=NOW)
    assert not verified or verify(store).balanced


def test_a_window_that_opens_within_an_hour_utc_splits_the_charge_there(store: Store) -> None:
    # In Kolkata, 08:00 is 02:30Z and 20:00 is 14:30Z.
    held(store, "2026-10-01 02:00", "2026-10-01 15:00")
    closed(store, card(rule("l4", "1.00"), rule("l4-day", "3.00", DAY), timezone="Asia/Kolkata"), "2026-10-01 16:00")
    assert charges(store) == [
        ("01 02:00", "01 02:30", "l4", "1.00"),
        ("01 02:30", "01 14:30", "l4-day", "3.00"),
        ("01 14:30", "01 15:00", "l4", "1.00"),
    ]
    assert cost(store) == 0.5 * 1 + 12 * 3 + 0.5 * 1


def test_hours_closed_one_by_one_have_the_prices_of_hours_closed_at_once(store: Store, dice: Random) -> None:
    """A price that has changed since, in an hour that is closed already, must not stand for the hours after it."""
    held(store, "2026-10-01 00:00", "2026-10-02 07:00")
    rates = card(rule("l4", "1.00"), rule("l4-day", "3.00", {"from": "03:00", "to": "10:30"}))
    for at in sorted(dice.sample(range(2, 24), dice.randint(3, 8))):
        closed(store, rates, f"2026-10-01 {at:02}:00", verified=False)
    closed(store, rates, "2026-10-02 07:00")
    assert charges(store) == [
        ("01 00:00", "01 03:00", "l4", "1.00"),
        ("01 03:00", "01 10:30", "l4-day", "3.00"),
        ("01 10:30", "02 03:00", "l4", "1.00"),
        ("02 03:00", "02 07:00", "l4-day", "3.00"),
    ]


def test_a_day_of_23_hours_has_its_window_where_the_clock_shows_it(store: Store) -> None:
    # The clocks go forward on 29 March 2026: the window's 12 hours are all there.
    held(store, "2026-03-28 23:00", "2026-03-29 22:00")
    closed(
        store,
        card(rule("l4", "1.00"), rule("l4-day", "3.00", DAY), timezone="Europe/Berlin"),
        "2026-03-29 22:00",
        False,
    )
    assert cost(store) == 11 * 1 + 12 * 3


def test_a_day_of_25_hours_has_its_window_and_what_is_shown_twice_holds_twice(store: Store) -> None:
    # The clocks go back on 25 October 2026. 02:15 to 02:45 is shown at 00:15Z (summer time) and again at 01:15Z.
    held(store, "2026-10-24 22:00", "2026-10-25 23:00")
    held(store, "2026-10-25 00:00", "2026-10-25 02:00", "twice", "GPU-1", queue="x")
    window = {"from": "02:15", "to": "02:45", "days": ["sun"]}
    rules = (rule("l4", "1.00"), rule("l4-day", "3.00", DAY), rule("x", "3.00", window, queue="x"))
    closed(store, card(*rules, timezone="Europe/Berlin"), "2026-10-25 23:00")
    assert [row[:3] for row in charges(store, "twice") if row[2] == "x"] == [
        ("25 00:15", "25 00:45", "x"), ("25 01:15", "25 01:45", "x"),
    ]  # fmt: skip
    assert cost(store) == (13 * 1 + 12 * 3) + (1 * 1 + 1 * 3)


def test_queue_priority_and_preemption_have_prices_and_one_that_changes_within_a_job_splits_its_charge(
    store: Store,
) -> None:
    span = ("2026-10-01 01:00", "2026-10-01 02:00")
    held(store, *span, name="plain", gpu="GPU-0")
    held(store, *span, name="gold", gpu="GPU-1", queue="gold")
    held(store, *span, name="high", gpu="GPU-2", priority=100)
    held(store, *span, name="low", gpu="GPU-3", priority=-1)
    held(store, *span, name="spot", gpu="GPU-4", preemptible=True, priority=50)
    held(store, *span, name="both", gpu="GPU-5", queue="gold", priority=1000)
    held(store, "2026-10-01 01:00", "2026-10-01 03:00", name="changes", gpu="GPU-6", model="A")
    rates = card(
        rule("l4", "1.00"),
        rule("gold", "2.00", queue="gold"),
        rule("high", "3.00", priority="high"),
        rule("low", "0.50", priority="low"),
        rule("spot", "0.25", preemptible=True),
        {**rule("a", "2.00", model="A"), "effective_to": "2026-10-01T01:45"},
        {**rule("a-new", "4.00", model="A"), "effective_from": "2026-10-01T01:45"},
        priority_classes={"high": {"from": 100}, "low": {"to": 0}},
    )
    closed(store, rates, "2026-10-01 03:00")
    assert {name: charges(store, name)[0][2] for name in ("plain", "gold", "high", "low", "spot", "both")} == {
        "plain": "l4", "gold": "gold", "high": "high", "low": "low", "spot": "spot",
        "both": "gold",  # the queue tells more than the priority
    }  # fmt: skip
    listed = store.rows(
        "SELECT DISTINCT sku, list_unit_price AS price FROM ledger WHERE allocation_id = '' ORDER BY sku"
    )
    # What nobody holds is of no queue and not preemptible.
    assert [(row["sku"], row["price"]) for row in listed] == [("l4", 1)]
    split = [("01 01:00", "01 01:45", "a", "2.00"), ("01 01:45", "01 03:00", "a-new", "4.00")]
    assert charges(store, "changes") == split
    # A GPU-hour each, and of the last 45 minutes at 2.00 and 75 at 4.00.
    assert cost(store) == (1 + 2 + 3 + 0.5 + 0.25 + 2) + 0.75 * 2 + 1.25 * 4


def test_a_new_price_closes_again_only_the_hours_in_which_somebody_pays_it(store: Store) -> None:
    held(store, "2026-10-01 01:00", "2026-10-01 03:00", tenant="chem")
    base = rule("l4", "1.00")
    closed(store, card(base), "2026-10-01 08:00", False)
    apply_rate_card(store, card(base, rule("chem", "0.50", tenant="chem")), "", "", NOW)
    report = close(store, until=datetime(2026, 10, 1, 8, tzinfo=UTC), now=NOW)
    assert (report.checked, report.changed) == (2, 2)
    # Somebody's first job does not touch the hours before it.
    held(store, "2026-10-01 06:00", "2026-10-01 07:00", name="b", gpu="GPU-0", tenant="new")
    assert close(store, until=datetime(2026, 10, 1, 8, tzinfo=UTC), now=NOW).checked == 1


@pytest.mark.usefixtures("engine_stays")
def test_the_commands(tmp_path: Path) -> None:
    url = f"chdb://{tmp_path}/store"
    with fresh_store(tmp_path / "store") as store:
        fill(store, [Row(datetime(2026, 10, 5, 7, tzinfo=UTC), "a", used=str(HOUR_MS))])
    h100 = {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(yaml.safe_dump({"currency": "EUR", "rates": [h100]}))
    two.write_text(yaml.safe_dump({"currency": "EUR", "rates": [{**h100, "price_per_gpu_hour": "2.25"}]}))
    gpuledger("rates", "apply", str(one), "--store", url, "--author", "ann", "--reason", "start")
    said = json.loads(gpuledger("rates", "diff", str(two), "--store", url, "--format", "json"))
    assert said["changes"] == [{"what": "changed", "of": "h100 (model H100)", "words": "from 2.00 to 2.25"}]
    assert [(row["tenant"], row["difference"]) for row in said["effect"]] == [("a", "0.250000000")]
    assert "changed  h100 (model H100): from 2.00 to 2.25" in gpuledger("rates", "diff", str(two), "--store", url)
    gpuledger("rates", "apply", str(two), "--store", url, "--author", "bob", "--reason", "power")
    rows = json.loads(gpuledger("rates", "history", "--store", url, "--format", "json"))
    assert [(row["author"], row["reason"], row["rules"]) for row in rows] == [("ann", "start", 1), ("bob", "power", 1)]
    shown = gpuledger("rates", "show", rows[0]["version"], "--store", url)
    assert parse_rate_card(yaml.safe_load(shown)).version == rows[0]["version"]
    back = json.loads(
        gpuledger("rates", "diff", rows[1]["version"], rows[0]["version"], "--store", url, "--format", "json")
    )
    assert back["changes"][0]["words"] == "from 2.25 to 2.00"
    (row,) = json.loads(gpuledger("rates", "list", "--store", url, "--format", "json"))
    assert (row["price_per_gpu_hour"], row["windows"], row["queue"]) == ("2.25", [], None)
    with open_store(url) as store:
        assert len(history(store)) == 2
        assert store.rows("SELECT actor, action, reason FROM audit FINAL ORDER BY at") == [
            {"actor": "ann", "action": "rates.apply", "reason": "start"},
            {"actor": "bob", "action": "rates.apply", "reason": "power"},
        ]
