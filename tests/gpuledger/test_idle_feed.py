"""Idle jobs from end to end: a scheduler's events and a node's samples in a store, alerts that a server evaluates and
answers, and what the scheduler does about that; then the books."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from access.opening import open_access
from access.settings import AccessSettings
from alerts.evaluate import evaluate
from alerts.rule_files import load_rules
from alerts.utilization import utilization
from billing.close import close
from billing.invoicing.invoices import issue_all
from billing.invoicing.rederive import rederive
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from collectors.tables import schema
from gpuledger.client import Client
from gpuledger.documents import Alert
from gpuledger.idle_feed import IdleFeed, follow, reading_of
from ingest.pipeline import ingest_tables
from scheduler.live.idle import RULE, Feed, Reading
from scheduler.live.scaled_jobs import Measured
from scheduler.live.scaled_jobs import Reading as Use
from scheduler.scaling import ScalingPolicy, UseRule
from tests.alerts.cases import QUIET
from tests.alerts.facts import NOON, ago, put, sampled
from tests.dashboards.site import serving, token_of
from tests.scheduler.live.living import Living, Slow
from warehouse.errors import LedgerError
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

SETTINGS = {
    "pools": [{"name": "p", "hosts": {"n1": ["GPU-0", "GPU-1"]}, "model": "H100"}],
    "tenants": [{"name": "vision"}, {"name": "speech"}],
    "queues": [{"name": "batch"}],
    "idle": [{"queues": ["batch"], "warn": "30m", "after": "1h", "then": "shrink"}],
}
BEGAN, USED_UNTIL = 300, 80
"""Minutes before NOON."""


class Served:
    """A store with its server, and the scheduler that asks it."""

    def __init__(self, store: Store, url: str, tokens: dict[str, Path], folder: Path) -> None:
        self.store, self.url, self.tokens = store, url, tokens
        self.living = Living(folder, SETTINGS, Slow(), ago(BEGAN).timestamp())
        self.put = 0

    def ingest(self) -> None:
        """The scheduler's rows, by the pipeline that takes everybody's."""
        rows, self.put = self.living.rows[self.put :], len(self.living.rows)
        for record in ("devices", "events"):
            kind = RECORD_TYPES[record]
            of_record = [row for name, row in rows if name == record]
            if of_record:
                table = pa.Table.from_pylist(of_record, schema(kind))
                assert not ingest_tables(self.store, kind, "scheduler", [table]).quarantined

    def feed(self, role: str = "operator", cluster: str = "c") -> Feed:
        return IdleFeed(self.url, self.tokens[role], cluster, lambda: self.living.now).ask()

    def at(self, minutes: float) -> None:
        """So many minutes before noon: alerts are evaluated, the scheduler asks, and acts."""
        rules = [rule for rule in load_rules() if rule.name == RULE]
        evaluate(self.store, rules, ago(minutes), delay=timedelta(0), live=False)
        self.living.now = ago(minutes).timestamp()
        self.living.service.hear_idle(self.feed())
        self.living.settle()
        self.ingest()

    def steps(self) -> list[str]:
        history = self.living.service.explain("train")["history"]
        return [str(line.get("step", line["what"])) for line in history if line["what"] in ("idle", "shrink")]


@pytest.fixture
def served(own_store: Store, tmp_path: Path) -> Iterator[Served]:
    with open_access(own_store) as people, serving(own_store, AccessSettings(sign_in=True)) as url:
        tokens = {}
        for role in ("operator", "speech"):
            tokens[role] = tmp_path / role
            tokens[role].write_text(token_of(people, role) + "\n")
        found = Served(own_store, url, tokens, tmp_path)
        found.living.submit("train", gpus=1, min_replicas=1, max_replicas=2)
        found.living.settle()
        found.ingest()
        yield found


def sample(store: Store, last: int) -> None:
    """Both devices of the job were used, then idle, until so many minutes before noon."""
    for device in ("GPU-0", "GPU-1"):
        busy = sampled(device, BEGAN - 1, USED_UNTIL, 0.9, sm_active=0.8, power_watts=500.0)
        rows = [row | {"cluster": "c"} for _, row in (*busy, *sampled(device, USED_UNTIL - 1, last, 0.0, **QUIET))]
        table = pa.Table.from_pylist(rows)
        assert not ingest_tables(store, RECORD_TYPES["samples"], "node", [table]).quarantined


def test_a_job_that_a_server_measures_to_be_idle_is_warned_and_made_smaller(served: Served) -> None:
    sample(served.store, 0)
    assert len(served.living.service.book.jobs["train"].grants) == 2
    for minutes in (80, 66, 65, 51, 50, 35, 21, 20, 0):
        served.at(minutes)
        idle_for = USED_UNTIL - minutes
        expected = ["noticed"] * (idle_for >= 15) + ["warned"] * (idle_for >= 30) + ["shrink"] * (idle_for >= 60)
        assert served.steps() == expected, f"idle for {idle_for} minutes"
    (one,) = [line for line in served.living.service.explain("train")["history"] if line["what"] == "shrink"]
    assert one["cause"]["text"].startswith(
        "idle for 1h, as measured at 2026-10-06T11:40:00.000Z; so it is made smaller"
    )
    served.living.now = NOON.timestamp()
    served.living.service.cancel("train", "ada")
    served.living.executor.over("train", 1)  # type: ignore[attr-defined]
    served.living.settle()
    served.ingest()
    close(served.store, now=NOON + timedelta(days=30))
    assert verify(served.store).balanced
    hours = served.store.value(
        "SELECT sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) FROM ledger_entries WHERE workload_id = 'train'"
    )
    shrunk_at = datetime.fromisoformat(str(one["at"]))
    began = ago(BEGAN)
    wanted = 2 * (shrunk_at - began) + (NOON - shrunk_at)
    assert int(hours) == pytest.approx(wanted.total_seconds() * 1000, abs=5)
    _invoice_shows_what_it_saved(served, shrunk_at)


def _invoice_shows_what_it_saved(served: Served, shrunk_at: datetime) -> None:
    """One GPU from the reclaim until somebody cancelled the job: on the draft, and on an invoice that verifies."""
    card = {"currency": "EUR", "rates": [{"sku": "h100", "price_per_gpu_hour": "3.00"}]}
    apply_rate_card(served.store, parse_rate_card(card), "me", "", NOON)
    month = parse_month("2026-10", "UTC")
    close(served.store, until=month.end, now=NOON + timedelta(days=30))
    with Client(served.url, served.tokens["operator"].read_text().strip()) as client:
        (draft,) = client.drafts("2026-10")
        assert draft.idle_reclaims is not None
        (one,) = draft.idle_reclaims["reclaims"]
        (issued,) = issue_all(served.store, month, NOON + timedelta(days=30))
        stored = client.invoice(str(issued.number))
    assert stored.idle_reclaims == draft.idle_reclaims == issued.document["idle_reclaims"]
    assert (one["workload"], one["act"], one["by"], Decimal(one["gpus"])) == ("train", "shrunk", "policy", 1)
    assert datetime.fromisoformat(one["at"]) == pytest.approx(shrunk_at, abs=timedelta(milliseconds=1))
    assert one["evidence"] == "idle for 1h, as measured at 2026-10-06T11:40:00.000Z"
    assert (one["until_because"], draft.idle_reclaims["at_most"]) == ("ended", None)
    saved = (NOON - shrunk_at).total_seconds() / 3600
    assert float(one["gpu_hours"]) == pytest.approx(saved, abs=1e-5)
    assert float(one["cost"]) == pytest.approx(3 * saved, abs=1e-4)
    held = 2 * (shrunk_at - ago(BEGAN)) + (NOON - shrunk_at)
    assert float(draft.totals["amount"]) == pytest.approx(3 * held.total_seconds() / 3600, abs=0.01)
    assert rederive(served.store, str(issued.number)).same


def test_a_job_with_a_policy_is_scaled_by_the_utilization_that_a_server_measures(served: Served) -> None:
    for device in ("GPU-0", "GPU-1"):
        put(served.store, [*sampled(device, BEGAN - 1, 201, 0.9), *sampled(device, 200, 100, 0.05)], "c")
    service, living = served.living.service, served.living
    rule = UseRule(shrink_below=0.2, grow_above=0.7, window_seconds=1800.0)
    service.rescale("train", 1, 2, "ada", ScalingPolicy(utilization=rule, cool_down_seconds=60.0))
    service.watches_idleness = True
    assert service.use_windows() == [1800.0]
    sizes = {}
    for minutes in (290, 250, 201, 150, 100):
        living.now = ago(minutes).timestamp()
        with Client(served.url, served.tokens["operator"].read_text().strip()) as client:
            at = client.utilization(1800, "c").at
        assert at == ago(100), "the newest sample"
        rows = utilization(served.store, ago(minutes), 1800, "c")
        readings = {row["allocation_id"]: Use(row["value"], row["held_gpus"]) for row in rows}
        service.hear_use(1800.0, Measured(living.now, living.now, readings))
        living.settle()
        sizes[minutes] = len(service.book.jobs["train"].grants)
    assert sizes == {290: 2, 250: 2, 201: 2, 150: 1, 100: 1}
    found = service.scaling("train")
    assert found is not None
    assert found["text"] == "utilization 5% over 30m with 2 replicas is below 20%: at most 1"
    feed = IdleFeed(served.url, served.tokens["operator"], "c", lambda: living.now)
    (reading,) = feed.ask_use(1800.0).readings.values()
    assert (reading.value, reading.gpus) == (pytest.approx(0.05), 2.0)
    assert IdleFeed(served.url, served.tokens["operator"], "other", lambda: 0.0).ask_use(1800.0).readings == {}
    assert (
        "it requires the role"
        in IdleFeed(served.url, served.tokens["speech"], "c", lambda: 0.0).ask_use(1800.0).problem
    )
    heard: dict[float, Measured] = {}
    stop = threading.Event()  # after the first answer: a window of half an hour is asked about every 90 s

    def receive(seconds: float, found: Measured) -> None:
        heard[seconds] = found
        stop.set()

    follow(feed, service.hear_idle, stop, windows=service.use_windows, receive_use=receive)
    assert list(heard[1800.0].readings) == ["train"]


def test_an_alert_that_is_not_evaluated_anew_moves_nothing(served: Served) -> None:
    """As where samples stop: the alert goes on firing, with what was known last."""
    sample(served.store, 45)
    for minutes in (80, 65, 50, 45, 40, 20, 0):
        served.at(minutes)
    (reading,) = served.feed().readings.values()
    assert (reading.seconds, reading.at) == (35 * 60, ago(45).timestamp())
    assert served.steps() == ["noticed", "warned"]
    (job,) = served.living.service.idle()["jobs"]
    assert job["idle_seconds"] is None
    assert "last measured at" in job["problem"]


def test_what_is_asked_is_of_its_own_cluster_and_needs_a_token_that_sees_all(served: Served) -> None:
    sample(served.store, 0)
    served.at(40)
    assert set(served.feed().readings) == {"train"}
    assert served.feed(cluster="another").readings == {}
    assert served.feed("speech").readings == {}, "a tenant sees its own alerts"
    served.tokens["operator"].write_text("not-a-token-of-anybody\n")
    feed = IdleFeed(served.url, served.tokens["operator"], "c", lambda: served.living.now)
    assert "token: unknown, expired or revoked" in feed.ask().problem
    served.tokens["operator"].unlink()
    assert "cannot be read" in feed.ask().problem


def test_an_alert_that_says_less_than_it_should_is_unknown() -> None:
    facts = dict.fromkeys(("keep_firing_since", "resolved_at", "fired_at"))
    row = {
        "rule": RULE, "fingerprint": "f", "state": "firing", "severity": "info", "at": NOON, "active_at": NOON,
        "value": 60.0, "labels": {}, "evidence": {"idle_since": "2026-10-06 10:00:00+00:00"}, "annotations": {},
        "held_back": "", **facts,
    }  # fmt: skip
    said = Alert.model_validate(row)
    assert reading_of(said) == Reading(60.0, datetime(2026, 10, 6, 10, 1, tzinfo=UTC).timestamp())
    for less in (
        {"value": None},
        {"value": -1.0},
        {"evidence": {}},
        {"evidence": {"idle_since": "2026-10-06 10:00:00"}},
        {"evidence": {"idle_since": 7}},
        {"keep_firing_since": NOON},
    ):
        assert reading_of(Alert.model_validate(row | less)).seconds is None, less


def test_a_server_that_is_gone_is_a_problem_and_a_bad_address_is_refused() -> None:
    feed = IdleFeed("http://127.0.0.1:1", None, "c", lambda: 7.0).ask()
    assert (feed.heard_at, feed.readings) == (7.0, {})
    assert "Is the server running" in feed.problem
    with pytest.raises(LedgerError, match="is not the address of a server"):
        IdleFeed("store", None, "c", lambda: 7.0)
    with pytest.raises(LedgerError, match=r"--idle-token-file /none: cannot be read"):
        IdleFeed("https://x", Path("/none"), "c", lambda: 7.0)
