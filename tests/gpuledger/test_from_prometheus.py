"""`gpuledger up --prometheus` on a recorded day in Debian's Prometheus: who held what, the books, drafts; killed and
begun again, it comes to the same."""

from __future__ import annotations

import io
import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from billing.invoicing.invoices import issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, example_prices, load_rate_card, parse_rate_card
from collectors.prometheus.history import Asked, History
from gpuledger import from_prometheus
from gpuledger.steps import Steps
from tests.collectors.prometheus import recorded
from tests.collectors.prometheus.recorded import NOW, at
from tests.draws import seldom
from tests.gpuledger.running import refused
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store

needs_prometheus = pytest.mark.skipif(
    recorded.PROMETHEUS is None or recorded.PROMTOOL is None, reason="no prometheus here (Debian: prometheus)"
)
FACTS = ("events", "devices", "samples", "metrics")
HELD = {
    # tenant: [(GPUs, from, to)], as recorded; `chem` from the first scrape on, ends that nobody stamped as they were
    "vision": [(2, at("1:10:11"), at("9:30:40"))],
    "chem": [(1, at("0:00:07"), at("15:00:50")), (1, at("16:00:10"), at("24:00:00"))],
    "bio": [(1, at("10:00:00"), at("12:00:30"))],
    "ops": [(1, at("13:00:00"), at("14:00:00"))],
}
PRICE = Decimal("3.99")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with recorded.prometheus(tmp_path_factory.mktemp("prometheus"), recorded.openmetrics()) as address:
        yield address


def facts(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Every fact, as often as it is told, without what says how it came."""
    return {
        name: store.rows(f"SELECT * EXCEPT(batch, told_otherwise) FROM {name} FINAL ORDER BY ALL") for name in FACTS
    }


def steps(said: io.StringIO) -> Steps:
    return Steps(Console(file=said, width=200), threading.Event())


@seldom(5, "a recorded day")
@needs_prometheus
def test_a_recorded_day_becomes_books_and_drafts_and_again_changes_nothing(url: str, tmp_path: Path) -> None:
    said = io.StringIO()
    with fresh_store(tmp_path / "store") as store:
        history = from_prometheus.open_history(store, Asked(url), NOW)
        assert (history.since, history.period_seconds) == (at("0:00:07"), recorded.PERIOD)
        found = from_prometheus.build(store, history, tmp_path / "drafts", steps(said), NOW)
        assert found.proof.balanced and found.proof.device_hours == 4 * 24
        assert (found.devices, found.has_holders, found.dropped) == ({recorded.MODEL: 4}, True, {})
        _check_amounts(found)
        _check_events(store)
        _check_example(store, found)
        history.close()
        whole = facts(store)
        again = from_prometheus.open_history(store, Asked(url), NOW)
        assert again.until == history.until
        from_prometheus._read(store, again, steps(said), NOW)
        assert facts(store) == whole
        again.close()


def rows_of(history: History, now: datetime, keeps: int | None = None) -> list[tuple[str, str]]:
    """Those of each piece, kept after each; after so many pieces one more is read that is not kept."""
    found: list[tuple[str, str]] = []
    for number in itertools.count():
        if (collected := history.next(now)) is None:
            break
        found += [(name, repr(sorted(row.items()))) for name, some in collected.rows.items() for row in some]
        if number == keeps:
            break
        history.keep()
    history.close()
    return found


@seldom(5, "a kill between rows and position")
@needs_prometheus
@pytest.mark.parametrize("keeps", [2, 10])
def test_a_kill_between_rows_and_position_changes_nothing(url: str, tmp_path: Path, keeps: int) -> None:
    """What was written and not kept comes once more, and the rest as if nothing had been."""
    now = at("12:40:00")
    killed = rows_of(History(Asked(url), tmp_path / "killed", now), now, keeps)
    rest = rows_of(History(Asked(url), tmp_path / "killed", now), now)
    assert set(killed) & set(rest), "a piece twice"
    assert {*killed, *rest} == set(rows_of(History(Asked(url), None, now), now))


@needs_prometheus
def test_a_long_history_is_read_on_a_grid_and_then_every_sample(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.prometheus.history.MOST_SAMPLES", 5000)
    begun, switch, later = at("12:01:00"), at("12:00:00"), at("13:00:00")
    history = History(Asked(url), None, begun)
    rows: dict[str, list[dict[str, Any]]] = {"samples": [], "events": []}
    while (collected := history.next(later)) is not None:
        for name, some in rows.items():
            some += collected.rows.get(name, [])
    assert history.every_seconds == 300
    assert {row["event"]: row["ts"] for row in rows["events"] if row["allocation_id"] == "uid-train"} == {
        "submitted": at("1:10:05"), "started": at("1:10:11"), "finished": at("9:30:40")
    }  # fmt: skip
    whole = [row for row in rows["samples"] if row["device_id"] == "GPU-0" and not row.get("workload_id")]
    coarse = [row["ts"] for row in whole if row["ts"] <= switch]
    assert coarse == [at("0:05:00") + timedelta(minutes=5 * n) for n in range(12 * 12)]
    assert {row["interval_seconds"] for row in whole if row["ts"] <= switch} == {300.0}
    rest = [row["ts"] for row in whole if row["ts"] > switch]
    assert rest == [at("12:00:07") + timedelta(minutes=2 * n) for n in range(30)]
    energy = sum(row["energy_joules"] for row in whole if row.get("energy_joules") is not None)
    assert energy == pytest.approx(100 * (later - at("0:05:00")).total_seconds(), rel=0.01)


def _check_amounts(found: from_prometheus.Found) -> None:
    """By hand, within what one scrape can hide of each end that has no stamp."""
    assert {draft.tenant for draft in found.drafts} == HELD.keys()
    hidden = timedelta(seconds=recorded.PERIOD)
    for draft in found.drafts:
        held = sum((gpus * (end - start) for gpus, start, end in HELD[draft.tenant]), timedelta())
        (line,) = draft.lines
        hours = Decimal(line["allocated_gpu_hours"])
        least, most = (round(Decimal(one.total_seconds()) / 3600, 9) for one in (held - hidden, held))
        assert least <= hours <= most, draft.tenant
        assert Decimal(line["amount"]) == round(hours * PRICE, 2) == draft.amount
        assert draft.document["notes"][0].startswith("The prices are an example, not yours: on-demand list prices of")
        text = (found.folder / f"draft-2026-10-{draft.tenant}.html").read_text()
        assert "The prices are an example, not yours" in text
    vision = next(draft for draft in found.drafts if draft.tenant == "vision")
    assert vision.lines[0]["allocated_gpu_hours"] == "16.682777778"  # 2 x 8 h 20 min 29 s: both ends have a stamp


def _check_events(store: Store) -> None:
    """Pods by their UIDs, with their own stamps where they have any; a name that came back is another pod."""
    rows = store.rows("SELECT allocation_id, event, ts, reason FROM events FINAL WHERE event != 'submitted'")
    assert {(row["allocation_id"], row["event"]): (row["ts"], row["reason"]) for row in rows} == {
        ("uid-train", "started"): (at("1:10:11"), ""),
        ("uid-train", "finished"): (at("9:30:40"), ""),
        ("uid-nb-old", "started"): (at("0:00:07"), ""),  # it had begun before the history
        ("uid-nb-old", "cancelled"): (at("15:00:23"), "Deleted, end estimated"),
        ("uid-nb-new", "started"): (at("16:00:10"), ""),
        ("uid-fold", "started"): (at("10:00:00"), ""),
        ("uid-fold", "failed"): (at("12:00:23"), "Evicted, end estimated"),
        ("uid-silent", "started"): (at("13:00:00"), ""),
        ("uid-silent", "cancelled"): (at("13:58:23"), "Deleted, end estimated"),
    }
    devices = "SELECT workload_id, groupUniqArray(device_id) AS devices FROM samples WHERE workload_id != '' GROUP BY 1"
    assert {row["workload_id"]: sorted(row["devices"]) for row in store.rows(devices)} == {
        pod.uid: sorted(pod.devices) for pod in recorded.PODS if pod.devices
    }


def _check_example(store: Store, found: from_prometheus.Found) -> None:
    """Nothing is issued at its prices; one's own replace it, and it does not come back."""
    assert found.example == example_prices(store) != ""
    month = parse_month("2026-10", "UTC")
    with pytest.raises(LedgerError, match=r"an example, at which nothing is issued.*rates apply"):
        issue_all(store, month, NOW + timedelta(days=40))
    own = parse_rate_card({"currency": "EUR", "rates": [{"sku": "gpu", "price_per_gpu_hour": "1.00"}]})
    apply_rate_card(store, own, "ada", "ours", NOW)
    from_prometheus._price(store, steps(io.StringIO()), NOW)
    assert example_prices(store) == ""
    from_prometheus.close_books(store, steps(io.StringIO()))
    drafts = from_prometheus._draft(store, found.folder, steps(io.StringIO()))
    hours = {draft.tenant: Decimal(draft.lines[0]["allocated_gpu_hours"]) for draft in drafts}
    assert {draft.tenant: draft.amount for draft in drafts} == {name: round(of, 2) for name, of in hours.items()}
    assert {draft.currency for draft in drafts} == {"EUR"}
    assert not any("example" in note for draft in drafts for note in draft.document["notes"])


def answers(address: str) -> bool:
    return httpx.get(address).status_code == 200


@seldom(5, "a recorded day, served")
@needs_prometheus
def test_a_history_is_imported_apart_from_the_server_that_follows_it(url: str, tmp_path: Path) -> None:
    """Twice, the second time from where the first ended."""
    up = [sys.executable, "-m", "gpuledger", "up", "--store", f"chdb://{tmp_path}/store", "--port", "0"]
    for more in (["--since", f"{recorded.DAY:%Y-%m-%d}"], []):
        command = [*up, "--prometheus", url, "--out", str(tmp_path / "drafts"), *more]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            said: list[str] = []
            while not (said and said[-1].strip().startswith("Dashboard")):
                said.append(process.stderr.readline())
                assert said[-1], said
            assert not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(), "it has ended"
            healthy = f"{said[-1].split()[1]}healthz"
            until(partial(answers, healthy), "the server")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        history, billed = (next(line for line in said if word in line) for word in ("History  ", "Billed"))
        assert ("History    0 records" in history) == (not more), history
        assert "170  USD, on 4 drafts" in billed
    assert len(list((tmp_path / "drafts").glob("*.html"))) == 4


def test_the_example_prices_whole_models_once_and_say_where_they_are_from() -> None:
    card = load_rate_card(from_prometheus.EXAMPLE_RATES)
    assert "2026-09-" in card.example and card.currency == "USD"
    assert all(rule.match.model and rule.price_per_gpu_hour > 0 for rule in card.rates)
    text = from_prometheus.EXAMPLE_RATES.read_text()
    assert "https://lambda.ai/instances" in text and "https://www.runpod.io/pricing" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--prometheus", "http://ada:secret@localhost:1"), "holds a login, which others can read here"),
        (("--since", "14d"), "Add --prometheus URL"),
        (("--prometheus", "localhost:9090"), "not an http or https URL"),
        (
            ("--prometheus", "http://localhost:1", "--since", "soon"),
            "'soon' is not an instant. Write it like 2026-10-05, ",
        ),
        (("--prometheus", "http://localhost:1", "--demo"), "a store has one of them"),
    ],
)
def test_options_that_do_not_fit_are_one_line(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    said = refused("up", "--store", f"chdb://{tmp_path}/store", "--no-serve", *options)
    assert message in said and "secret" not in said
