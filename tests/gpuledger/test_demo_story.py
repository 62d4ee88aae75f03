"""What the demo has to show, as a person finds it with commands."""

from __future__ import annotations

import io
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from rich.console import Console

from billing.close import close
from billing.invoicing.drafts import draft_all
from billing.periods import parse_month
from gpuledger import demo
from gpuledger.demo_fleet import Feed
from gpuledger.demo_scheduler import DemoScheduler
from gpuledger.steps import Steps
from tests.draws import seldom
from tests.gpuledger.running import run
from tests.stores import fresh_store
from warehouse.store import open_store

pytestmark = seldom(2, "the demo", 0)

ADDRESS = "http://127.0.0.1:8050/"
WATCHED = datetime(2026, 11, 2, 10, 23, tzinfo=demo.ZONE)
"""When the small demo of these tests was first watched; it invoiced October, of which it has a day."""

SMALL = {"days": 3, "scale": 0.2}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A small demo, made twice as one that is started again: its store's URL, and the folder of its documents."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PAST", "BEFORE_THE_MONTH"):
            patch.setattr(demo, name, timedelta(days=1))
        patch.setattr(demo, "FLEET", SMALL)
        store = fresh_store(folder / "store")
        steps = Steps(Console(file=io.StringIO()), threading.Event())
        for started in (WATCHED, WATCHED + timedelta(hours=3)):
            assert demo.build(store, 7, folder / "invoices", steps, started, ADDRESS).proof.balanced
        store.close()
    yield f"chdb://{folder / 'store'}", folder / "invoices"


def answered(made: tuple[str, Path], command: str, *more: str) -> Any:
    """What a command answers as JSON."""
    done = run(command, *more, "--store", made[0], "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_books_of_the_demo_verify(made: tuple[str, Path]) -> None:
    assert run("verify", "--store", made[0]).exit_code == 0


def test_a_tenant_exceeds_its_budget_and_an_alert_says_so(made: tuple[str, Path]) -> None:
    states = {row["tenant"]: row for row in answered(made, "budget status --period 2026-10")["budgets"]}
    others = set(states) - {"nlp", "vision"}
    assert (states["nlp"]["state"], states["vision"]["state"]) == ("over", "warning")
    assert {states[name]["state"] for name in others} == {"ok"}
    billed = {row["tenant"] for row in answered(made, "invoice list")}
    assert billed == set(states), "the fleet has a budget only if every tenant has one"
    assert float(states["nlp"]["percent"]) > 100
    fired = answered(made, "alerts list")
    assert "nlp" in {row["labels"]["tenant"] for row in fired if row["rule"] == "budget-threshold"}
    assert len(answered(made, "budget list")) == 2 * len(states)


def test_a_late_record_corrects_an_invoice_on_the_next_draft(made: tuple[str, Path]) -> None:
    invoices = {row["number"]: row for row in answered(made, "invoice list")}
    drafts = [json.loads(path.read_text()) for path in made[1].glob("draft-2026-11-*.json")]
    assert drafts
    for draft in drafts:
        tenant = draft["tenant"]
        lines = [line for line in draft["lines"] if line["charge_class"] == "Correction"]
        assert {invoices[line["reference"]["invoice"]]["tenant"] for line in lines} == {tenant}
        assert sum(float(line["amount"]) for line in lines) < 0
        (change,) = draft["changes"]
        assert change["month"] == "2026-10"
        assert change["allocations"] > 0
        (asked,) = answered(made, "invoice draft --period 2026-11", "--tenant", tenant)
        assert [line for line in asked["lines"] if line["charge_class"] == "Correction"] == lines


def test_a_credit_note_stands_beside_the_invoices(made: tuple[str, Path]) -> None:
    (note,) = [row for row in answered(made, "invoice list") if row["status"] == "credit note"]
    assert note["tenant"] == "physics-lab"
    assert float(note["total"]) < 0
    assert {path.suffix for path in made[1].glob(f"{note['number']}-*")} == {".pdf", ".html", ".json", ".csv"}


def test_the_alerts_that_fire_were_sent_to_somebody_once(made: tuple[str, Path]) -> None:
    lines = [json.loads(line) for line in (made[1] / "notifications.jsonl").read_text().splitlines()]
    found = answered(made, "sql", "SELECT fingerprint, target, outcome FROM alert_deliveries")["data"]
    assert {(row["target"], row["outcome"]) for row in found} == {("demo/file", "sent")}
    assert sorted(row["fingerprint"] for row in found) == sorted(line["fingerprint"] for line in lines)
    assert "budget-threshold" in {line["rule"] for line in lines}
    assert all(line["link"].startswith(f"{ADDRESS}alerts?rule={line['rule']}&alert=") for line in lines)


def test_what_somebody_knows_of_already_is_silenced_once(made: tuple[str, Path]) -> None:
    (silence,) = answered(made, "alerts silence list")
    assert silence["matchers"] == {"alertname": ["low-utilization"], "tenant": ["physics-lab"]}
    assert silence["reason"] == "Teaching cards rest between lessons"


def test_people_tokens_queries_a_mapping_and_a_held_push_are_there_once(made: tuple[str, Path]) -> None:
    """As found: five parts of Administration, and the saved queries of Explore, were empty."""
    people = {row["name"]: row["kind"] for row in answered(made, "users list")}
    assert {name for name, kind in people.items() if kind == "local"} == {"amara", "noor", "lena"}
    tokens = answered(made, "tokens list")
    assert sorted(row["name"] for row in tokens) == ["focus-export", "grafana", "old-dashboard", "vision-notebooks"]
    assert {row["owner"] for row in tokens} <= {f"{name} (service)" for name in people} | set(people)
    queries = answered(made, "queries list")
    assert len(queries) == 3
    for row in queries:
        assert row["shared"]
        assert answered(made, "sql --saved", row["name"])["data"], row["name"]
    (push,) = answered(made, "held list")
    assert (push["record_type"], push["reason"]) in {("devices", "beyond_window"), ("devices", "issued_month")}
    charged = "SELECT tenant, cost_center FROM v_charges GROUP BY ALL ORDER BY tenant"
    centers = {row["tenant"]: row["cost_center"] for row in answered(made, "sql", charged)["data"]}
    assert {name for name, center in centers.items() if not center} == {"platform"}


def test_alerts_fired_before_the_demo_was_watched(made: tuple[str, Path]) -> None:
    """As found: the history of alerts was of the day on which it began."""
    fired = "SELECT DISTINCT toDate(fired_at) AS day FROM alert_history WHERE fired_at IS NOT NULL"
    assert len(answered(made, "sql", fired)["data"]) > 1


def test_a_job_waits_while_it_is_watched_and_says_why(made: tuple[str, Path]) -> None:
    asked = (
        "SELECT workload_id, argMax(event, ts) AS last, argMax(message, ts) AS message FROM v_events"
        " WHERE startsWith(workload_id, 'pretrain-wide') GROUP BY workload_id"
    )
    waiting = [row for row in answered(made, "sql", asked)["data"] if row["last"] == "submitted"]
    assert waiting
    assert all("replicas fit" in json.loads(row["message"])["text"] for row in waiting)


def test_the_month_has_its_carbon(made: tuple[str, Path]) -> None:
    report = answered(made, "energy --period 2026-10 --by tenant")
    total = {name: float(value) for name, value in report["total"].items()}
    assert total["kwh_without_intensity"] == 0
    assert total["kgco2e"] == pytest.approx(0.344 * 1.28 * total["kwh"])
    assert {row["tenant"] for row in report["rows"]} >= {"nlp", "vision", "physics"}
    assert all(float(row["kgco2e"]) > 0 for row in report["rows"])


def test_a_neighbour_disturbs_another_again_and_again(made: tuple[str, Path]) -> None:
    span = (
        "since = toDateTime64('2026-10-30 00:00:00', 3, 'UTC'), until = toDateTime64('2026-11-03 00:00:00', 3, 'UTC')"
    )
    found = answered(made, "sql", f"SELECT * FROM interference_episodes({span}) WHERE grade = 'measured'")
    episodes = found["data"]
    assert len(episodes) > 5
    assert {(row["identity"], row["tenant"]) for row in episodes} == {("tutor", "physics-lab")}
    assert {name for row in episodes for name in row["neighbour_identities"]} == {"transcription"}
    assert all(row["mean_slowdown"] == pytest.approx(1.45, abs=0.05) for row in episodes)


def test_quota_is_borrowed_and_called_back_and_fragments_are_counted(made: tuple[str, Path]) -> None:
    taken = "SELECT count() AS n FROM v_events WHERE event = 'preempted' AND reason = 'ReclaimLentQuota'"
    assert answered(made, "sql", taken)["data"][0]["n"] > 0
    reported = (
        "SELECT ts, tenant, metric, value FROM service_levels WHERE service = 'scheduler'"
        " AND (metric LIKE 'tenant_%' OR metric = 'fragmented_gpus')"
    )
    at: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in answered(made, "sql", reported)["data"]:
        at[row["ts"]][row["tenant"], row["metric"].split(",")[0]] = row["value"]
    pool = '{pool="a100"'
    assert any(
        values[tenant, f"tenant_held_gpus{pool}"] > values[tenant, f"tenant_guaranteed_gpus{pool}"] > 0
        for values in at.values()
        for tenant in ("physics", "vision", "nlp", "研发一部")
    )
    assert any(values["", "fragmented_gpus"] > 0 for values in at.values())


def test_an_idle_notebook_is_reclaimed_and_comes_back_to_its_place(
    made: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "FLEET", SMALL)
    now = [WATCHED + timedelta(minutes=1)]
    log, clock = tmp_path / "log.sqlite", lambda: now[0].timestamp()
    with open_store(made[0]) as store:
        story = demo.story_in(store)
        assert story is not None
        with DemoScheduler(log, "demo", clock) as scheduler:
            scheduler.look(store)
            job = scheduler.service.idle()["jobs"][0]["job_id"]
            scheduler.service.reclaim(job, "ada")
            scheduler.look(store)
            now[0] += timedelta(minutes=20)
            scheduler.service.resume(job, "ada")
            scheduler.look(store)
        asked = (
            "SELECT allocation_id AS name, event, device_id, ts FROM v_events"
            " WHERE workload_id = {job:String} ORDER BY ts, event DESC"
        )
        rows = store.rows(asked, {"job": job})
        stopped = next(row for row in rows if row["event"] == "suspended")
        back = rows[-1]
        assert (stopped["name"], back["name"], back["event"]) == (job, f"{job}/resumed-1", "started")
        assert back["device_id"] == next(row["device_id"] for row in rows if row["event"] == "started")
        with DemoScheduler(log, "demo", clock) as again:
            again.look(store)
            kept: dict[str, list[datetime]] = defaultdict(list)
            for record, table in Feed(story.plan, WATCHED).until(WATCHED + timedelta(hours=1)):
                left = again.without_stopped(record.name, table)
                kept[record.name] += left.filter(pc.equal(left["workload_id"], job))["ts"].to_pylist()
        close(store, WATCHED + timedelta(hours=1), WATCHED + timedelta(hours=1))
        drafts = draft_all(store, parse_month("2026-11", str(demo.ZONE)))
    sections = [draft.document["idle_reclaims"] for draft in drafts if "idle_reclaims" in draft.document]
    ((one,),) = (section["reclaims"] for section in sections)
    assert (one["workload"], one["act"], one["by"], one["until_because"]) == (job, "suspended", "operator", "resumed")
    assert Decimal(one["gpu_hours"]) == round(Decimal(one["gpus"]) / 3, 9), "20 minutes"
    assert kept["samples"]
    assert not [at for at in kept["samples"] if stopped["ts"] < at <= back["ts"]]
    assert not [at for at in kept["events"] if at > stopped["ts"]]


def test_workloads_have_names_that_people_can_read(made: tuple[str, Path]) -> None:
    found = answered(made, "sql", "SELECT DISTINCT workload_id, actor FROM v_events WHERE source != 'slurm'")["data"]
    names = {row["workload_id"] for row in found}
    assert len(names) > 50
    assert {"notebook-1", "service-nlp-serving-0", "tutor-0", "transcription-burst-3"} <= names
    by = {row["actor"] for row in found if row["actor"] in names}
    assert by  # of preemptions: the workload that got the place
    identifier = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")
    assert not [name for row in found for name in row.values() if identifier.search(name)]
