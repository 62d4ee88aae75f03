"""Shipped rules that look at the whole store, the books, budgets or deliveries: firing, and the nearest not."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from alerts import sources
from alerts.deliver import deliver
from alerts.evaluate import evaluate
from alerts.reading import alerts
from alerts.routing import Routing
from alerts.rule import Rule
from alerts.rule_files import load_rules
from alerts.slo.measure import measure
from alerts.speaking import spoken
from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.close import close as close_books
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from ingest import ingest_tables
from tests.alerts.cases import holder
from tests.alerts.facts import NOON, ago, device, ended, put, sampled, served, started, submitted
from tests.alerts.rules import alive
from tests.alerts.slo.promises import ERRORS, promise
from tests.alerts.test_shipped_rules import OF_THE_WHOLE_STORE
from tests.billing.account_books import NO_PRICES
from tests.billing.facts import put as reported
from tests.billing.hand_ledger import HOUR_MS, Row, at, close, fill
from tests.draws import seldom
from warehouse.records import SAMPLES
from warehouse.store import Store

pytestmark = seldom(6, "all of store rules")


@functools.cache
def shipped() -> dict[str, Rule]:
    return {rule.name: rule for rule in load_rules()}


def fires(store: Store, name: str, **parameters: Any) -> dict[tuple[str, ...], float | None]:
    """Identity and value of what fires at noon."""
    rule = shipped()[name]
    rule = rule.model_copy(update={"parameters": {**rule.parameters, **parameters}, "needs": {}, "for_": 0})
    put(store, [alive(0)])
    report = evaluate(store, [rule], NOON, delay=timedelta(0), live=False)
    assert report.problems == {}
    own = [one for one in report.transitions if one.alert.rule == name]
    for one in own:
        assert one.alert.state == "firing"
        assert "cannot be filled in" not in str(one.annotations), one.annotations
    return {tuple(one.labels.get(word, "") for word in rule.identity): one.alert.value for one in own}


def quotas(store: Store) -> None:
    """physics holds 2.5 GPUs and has waited for 4 more for a quarter of an hour."""
    put(
        store,
        [
            *device("a"),
            *device("b"),
            *device("c", units=4),
            *started("one", 100, "a", "b"),
            *started("half", 100, "c", units=2),
            *submitted("more", 15, gpus=4.0),
            *submitted("new", 5, gpus=8.0),
        ],
    )


@pytest.mark.parametrize(
    ("judge", "gpus", "value"),
    [
        ("quota-guarantee-missed", 4.0, 1.5),
        ("quota-guarantee-missed", 100.0, 4.0),  # no more than it asks for
        ("quota-guarantee-missed", 2.5, None),
        ("quota-breached", 2.0, 0.5),
        ("quota-breached", 2.5, None),
    ],
)
def test_a_quota_is_missed_or_breached_by_so_many_gpus(
    facts: Store, judge: str, gpus: float, value: float | None
) -> None:
    quotas(facts)
    expected = {} if value is None else {("", "tenant", "physics"): value}
    assert fires(facts, judge, quotas={"physics": gpus}) == expected


def test_a_guarantee_is_honoured_where_nothing_more_is_asked_for(facts: Store) -> None:
    quotas(facts)
    put(facts, [*ended("more", 1, "cancelled")])
    assert fires(facts, "quota-guarantee-missed", quotas={"physics": 4.0}) == {}


@pytest.mark.parametrize(
    ("judge", "gpus", "value"),
    [
        ("quota-breached", 2.0, 0.5),  # at least
        ("quota-breached", 3.0, None),  # unknown: 2.5 or 3.5 are allocated
        ("quota-breached", 3.5, None),
        ("quota-guarantee-missed", 4.0, 0.5),
        ("quota-guarantee-missed", 3.2, None),  # unknown: 0.7 or none
    ],
)
def test_of_a_device_that_no_inventory_has_anything_up_to_one_gpu_may_be_held(
    facts: Store, judge: str, gpus: float, value: float | None
) -> None:
    quotas(facts)
    put(facts, started("stray", 90, "nowhere"))
    expected = {} if value is None else {("", "tenant", "physics"): value}
    assert fires(facts, judge, quotas={"physics": gpus}) == expected


def test_a_device_that_was_removed_is_held_by_nobody(facts: Store) -> None:
    quotas(facts)
    put(facts, device("b", 30, state="removed"))
    assert fires(facts, "quota-breached", quotas={"physics": 1.0}) == {("", "tenant", "physics"): 0.5}


@pytest.mark.parametrize(
    ("judge", "gpus", "value"),
    [("quota-breached", 2.0, 0.5), ("quota-breached", 4.0, None), ("quota-guarantee-missed", 4.0, None)],
)
def test_what_says_neither_devices_nor_how_many_may_be_any_number(
    facts: Store, judge: str, gpus: float, value: float | None
) -> None:
    quotas(facts)
    put(facts, started("any", 90, "", node="n2"))
    expected = {} if value is None else {("", "tenant", "physics"): value}
    assert fires(facts, judge, quotas={"physics": gpus}) == expected


def test_a_row_without_units_holds_as_many_as_its_device_had_then(facts: Store) -> None:
    """As the ledger has it: a device of one unit that has four since is held by a quarter."""
    put(facts, [*device("a"), *started("one", 100, "a"), *device("a", 50, units=4)])
    assert fires(facts, "quota-breached", quotas={"physics": 0.1}) == {("", "tenant", "physics"): 0.15}


def test_quotas_may_be_by_queue_or_project(facts: Store) -> None:
    quotas(facts)
    assert fires(facts, "quota-breached", quotas={"train": 1.0}, by="queue") == {("", "queue", "train"): 1.5}


def test_without_quotas_nothing_is_judged(facts: Store) -> None:
    quotas(facts)
    assert fires(facts, "quota-breached") == {}


STATED = {("", "queue", "train"): 0.5}


@pytest.mark.parametrize(
    ("judge", "more", "expected"),
    [
        ("quota-breached", {}, STATED),
        ("quota-guarantee-missed", {}, {("", "queue", "train"): 1.5}),
        # One given by hand for the same queue counts in its place, and a tenant is no queue.
        ("quota-breached", {"quotas": {"train": 1.0}, "by": "queue"}, {("", "queue", "train"): 1.5}),
        ("quota-breached", {"quotas": {"physics": 2.5}}, STATED | {("", "tenant", "physics"): 2.0}),
    ],
)
def test_quotas_that_kueue_and_volcano_state_need_no_list(
    facts: Store, judge: str, more: dict[str, Any], expected: dict[tuple[str, ...], float]
) -> None:
    quotas(facts)
    levels = [
        *served(3, "queue_limit_gpus", 1.0, service="kueue/train"),  # it was raised since
        *served(2, "queue_limit_gpus", 2.0, service="kueue/train"),
        *served(2, "queue_guaranteed_gpus", 4.0, service="kueue/train"),
        *served(2, "queue_guaranteed_gpus", 5.0, service="volcano/idle"),
        *served(2, "queue_limit_gpus", 1.0, service="kueue/train", cluster="c2"),  # nothing of it runs there
        *served(3, "queue_limit_gpus", 1.0, service="volcano/unbounded"),  # until a minute ago
        *served(2, "queue_held_gpus", 9.0, service="volcano/unbounded"),
        *served(20, "queue_limit_gpus", 0.0, service="kueue/long-gone"),
        *served(2, "queue_limit_gpus", 0.0, service="scheduler/train"),
    ]
    held = [*started("theirs", 9, "d", queue="unbounded"), *started("old", 9, "e", queue="long-gone")]
    put(facts, [*levels, *device("d"), *device("e"), *held])
    assert fires(facts, judge, **more) == expected


def requests(store: Store, errors_of_a_hundred: float, minutes: int, first: int = 400) -> None:
    """A request a second all the time; errors in the last so many minutes."""
    put(store, [f for m in range(first, -1, -1) for f in served(m, "requests_per_second", 1.0)])
    put(store, [f for m in range(minutes, -1, -1) for f in served(m, "errors_per_second", errors_of_a_hundred / 100)])


def test_errors_that_burn_a_month_s_budget_in_two_days_alert_and_slower_ones_do_not(facts: Store) -> None:
    requests(facts, 15, 70)  # 15 times what one percent allows, for more than an hour
    assert list(fires(facts, "service-error-burn")) == [("", "", "chat")]


def test_errors_just_below_do_not_alert(facts: Store) -> None:
    requests(facts, 14, 70)
    assert fires(facts, "service-error-burn") == {}


def test_errors_that_are_over_do_not_alert(facts: Store) -> None:
    requests(facts, 0, 400)
    put(facts, [f for m in range(95, 29, -1) for f in served(m, "errors_per_second", 0.5, workload_id="r1")])
    assert fires(facts, "service-error-burn") == {}


def test_services_of_one_name_are_judged_by_tenant(facts: Store) -> None:
    """As found: the requests of both were added up, and the alert was of the tenant whose name is last."""
    for tenant, errors in (("physics", 0.5), ("speech", 0.0), ("", 0.5)):
        more: dict[str, Any] = {"tenant": tenant, "workload_id": f"r-{tenant}"}
        put(facts, [f for m in range(400, -1, -1) for f in served(m, "requests_per_second", 1.0, **more)])
        put(facts, [f for m in range(70, -1, -1) for f in served(m, "errors_per_second", errors, **more)])
    api = {"service": "api", "cluster": "c2"}
    put(facts, [f for m in range(400, -1, -1) for f in served(m, "requests_per_second", 1.0, tenant="physics", **api)])
    put(facts, [f for m in range(70, -1, -1) for f in served(m, "errors_per_second", 0.5, **api)])
    assert set(fires(facts, "service-error-burn")) == {
        ("", "", "chat"), ("", "physics", "chat"), ("c2", "physics", "api"),
    }, "what is reported without a tenant is the only one's"  # fmt: skip


def test_a_slow_service_is_not_hidden_by_another_tenants_of_its_name(facts: Store) -> None:
    for tenant, seconds in (("physics", 2.5), ("speech", 0.1)):
        more = {"tenant": tenant, "quantile": 0.95, "value_low": seconds}
        put(facts, [f for m in range(20) for f in served(m, "request_latency_seconds", seconds, **more)])
    assert fires(facts, "service-latency", bounds={"chat": 1.9}) == {("", "physics", "chat"): 1.0}


def test_a_slow_burn_of_six_hours_alerts(facts: Store) -> None:
    requests(facts, 7, 400)
    assert list(fires(facts, "service-error-burn")) == [("", "", "chat")]


@pytest.mark.parametrize(
    ("rule", "percent", "minutes", "burns"),
    [
        ("slo-burning", 15, 70, True),  # fast: 15 times, in 1 h and in 5 min
        ("slo-burning", 14, 70, False),
        ("slo-burning", 7, 400, True),  # medium: 7 times, in 6 h and in 30 min
        ("slo-burning-slow", 14, 70, True),  # 2.4 times of all that is known, in 3 d and in 6 h
        ("slo-burning-slow", 1, 270, False),
    ],
)
def test_an_objective_of_the_sites_own_file_alerts_where_its_budget_burns(
    facts: Store, rule: str, percent: float, minutes: int, burns: bool
) -> None:
    requests(facts, percent, minutes)
    put(facts, [f for m in range(400, minutes, -1) for f in served(m, "errors_per_second", 0.0)])
    promise(facts, {**ERRORS, "window": "30d"})
    measure(facts, NOON)
    assert list(fires(facts, rule)) == ([("errors", "", "", "chat")] if burns else [])


def test_an_objective_of_which_nothing_is_known_does_not_alert(facts: Store) -> None:
    promise(facts, ERRORS)
    measure(facts, NOON)
    assert fires(facts, "slo-burning") == {}


@pytest.mark.parametrize(
    ("low", "value", "bounds", "expected"),
    [
        (2.0, 2.5, {"chat": 1.9}, {("", "", "chat"): 1.0}),
        (1.5, 2.5, {"chat": 1.9}, {}),  # the bucket's low edge is within the bound: not certain
        (2.0, 2.5, {"other": 1.9}, {}),
        (2.0, 2.5, {}, {}),
    ],
)
def test_a_service_is_slow_only_where_its_quantile_is_above_the_bound_for_certain(
    facts: Store, low: float, value: float, bounds: dict[str, float], expected: dict[Any, Any]
) -> None:
    rows = [f for m in range(20) for f in served(m, "request_latency_seconds", value, quantile=0.95, value_low=low)]
    put(facts, [*rows, *served(1, "request_latency_seconds", 99.0, quantile=0.5)])
    assert fires(facts, "service-latency", bounds=bounds) == expected


def test_the_ledger_is_late_after_three_hours(facts: Store) -> None:
    put(facts, [alive(600)])
    close(facts, [ago(240), ago(300)])
    assert fires(facts, "ledger-late") == {("ledger",): 10_800.0}


def test_the_ledger_is_not_late_after_two(facts: Store) -> None:
    put(facts, [alive(600)])
    close(facts, [ago(180)])
    assert fires(facts, "ledger-late") == {}


def test_a_ledger_that_was_never_closed_is_late_once_there_are_facts_for_it(facts: Store) -> None:
    put(facts, [alive(181)])
    assert fires(facts, "ledger-late") == {("ledger",): 10_860.0}


def test_a_ledger_of_devices_alone_is_late_too(facts: Store) -> None:
    """At a site without events, where exporters report the devices."""
    put(facts, [*device("gpu-0", since=240), *device("gpu-0", since=0, state="unavailable")])
    report = evaluate(facts, [shipped()["ledger-late"]], NOON, delay=timedelta(0), live=False)
    assert [(one.alert.state, one.alert.value) for one in report.transitions] == [("firing", 14_400.0)]


def test_books_that_do_not_balance_alert_and_those_that_do_not_fail_do_not(facts: Store) -> None:
    put(facts, device("gpu-0", since=600))
    close_books(facts, ago(180), NOON)
    assert fires(facts, "ledger-not-balanced") == {}
    facts.command("TRUNCATE TABLE alert_runs")
    facts.command(
        "ALTER TABLE ledger_entries UPDATE unallocated_unit_ms = unallocated_unit_ms - 1 "
        "WHERE hour = {hour:DateTime64(3, 'UTC')}",
        {"hour": ago(300)},
        settings={"mutations_sync": 2},
    )
    # The device-hour does not sum up, and the hour's entries are not those that its close wrote.
    assert fires(facts, "ledger-not-balanced") == {("ledger",): 2.0}


def test_books_of_which_only_a_close_is_due_do_not_alert(facts: Store) -> None:
    reported(facts, "devices", [row for _, row in device("gpu-0", since=600)])
    close_books(facts, ago(180), NOON)
    late = [*device("gpu-1", since=400), *device("gpu-0", since=300, state="unavailable")]
    reported(facts, "devices", [row for _, row in late])
    assert verify(facts).waiting == 4 + 2
    assert fires(facts, "ledger-not-balanced") == {}


@pytest.mark.parametrize(("days", "expected"), [((0, 8), {("overlaps",): 1.0}), ((8, 9), {})])
def test_claims_that_the_books_refuse_alert_for_a_week(
    facts: Store, days: tuple[int, int], expected: dict[tuple[str, ...], float]
) -> None:
    columns = {"reason": ["overlaps"] * 2, "allocation_id": ["one", "two"], "tenant": ["physics"] * 2}
    times = pa.array([ago(60 + day * 1440) for day in days], pa.timestamp("ms", "UTC"))
    facts.insert("refused_claims", pa.table({**columns, "start_at": times, "end_at": times}))
    assert fires(facts, "claims-refused") == expected


def books(store: Store, costs: list[str], until: date = date(2026, 10, 5)) -> None:
    """So much on each of the days until a day; every hour of them is closed."""
    card = parse_rate_card({"currency": "EUR", "timezone": "UTC", "rates": NO_PRICES})
    apply_rate_card(store, card, "me", "", at("2026-01-01 00:00"))
    days = [at(f"{until - timedelta(days=len(costs) - 1 - n)} 00:00") for n in range(len(costs))]
    rows = [
        Row(day + timedelta(hours=6), "physics", used=str(HOUR_MS), price=cost)
        for day, cost in zip(days, costs, strict=True)
    ]
    fill(store, rows, closed=[day + timedelta(hours=n) for day in days for n in range(24)])


def budget(store: Store, amount: str) -> None:
    file = {"currency": "EUR", "budgets": [{"tenant": "physics", "amount": amount, "thresholds": [{"percent": "80"}]}]}
    apply_budgets(store, parse_budgets(file), "me", "", NOON)


def test_a_budget_alerts_from_the_threshold_on(facts: Store) -> None:
    books(facts, ["16.00"] * 5)
    budget(facts, "100.00")
    assert fires(facts, "budget-threshold") == {("physics", "", "2026-10", "actual", "80"): 0.0}


def test_a_budget_below_its_threshold_does_not(facts: Store) -> None:
    books(facts, ["16.00"] * 5)
    budget(facts, "100.01")
    assert fires(facts, "budget-threshold") == {}


def test_a_day_that_cost_far_more_than_its_past_alerts(facts: Store) -> None:
    books(facts, ["100.00"] * 20 + ["130.00"])
    assert list(fires(facts, "spend-anomaly")) == [("2026-10-05", "tenant", "physics")]


def test_what_an_unusual_day_s_cost_comes_from_is_written_as_its_cost_is(facts: Store) -> None:
    """As found: "1530.99 USD" below "2,127.39 USD"; and "H100 in train" on a Chinese page."""
    books(facts, ["1000.00"] * 20 + ["1300.00"])
    (one,) = sources.anomalies(facts, NOON, {"days": 2})
    assert one["contributors"].endswith(" €1,300")


@pytest.mark.parametrize(
    ("tenant", "subject", "who"),
    [("physics", "tenant", "physics"), ("", "tenant", "无名租户"), ("", "unallocated", "未分配的 GPU")],
)
def test_a_day_s_cost_in_chinese_names_whose_it_was(tenant: str, subject: str, who: str) -> None:
    rules = {rule.name: rule for rule in load_rules()}
    labels = {"day": "2026-10-05", "tenant": tenant, "subject": subject}
    evidence = {"cost": "130", "expected": "100", "currency": "EUR", "direction": "high", "contributors": ""}
    alert = {
        "rule": "spend-anomaly",
        "labels": labels,
        "value": 4.0,
        "evidence": evidence,
        "at": NOON,
        "active_at": NOON,
    }
    summary = spoken({**alert, "annotations": {"summary": "as stored"}}, rules, "zh", "UTC")["summary"]
    space = " " if who[-1].isascii() else ""
    assert summary.startswith(f"2026年10月5日：{who}{space}花费 ")


def test_a_day_that_cost_a_little_more_does_not(facts: Store) -> None:
    books(facts, ["100.00"] * 20 + ["117.00"])
    assert fires(facts, "spend-anomaly") == {}


def test_an_anomaly_of_last_week_is_over(facts: Store) -> None:
    books(facts, ["100.00"] * 15 + ["130.00"] + ["100.00"] * 5)
    assert fires(facts, "spend-anomaly") == {}


def arrived_at_noon(facts: Store) -> None:
    facts.command("CREATE TABLE arrived AS ingest_batches")
    facts.command(
        "INSERT INTO arrived SELECT * REPLACE ({at:DateTime64(3, 'UTC')} AS ingested_at) FROM ingest_batches",
        {"at": NOON},
    )
    facts.exchange("arrived", "ingest_batches")
    facts.command("DROP TABLE arrived SYNC")


@pytest.mark.parametrize(
    ("source", "minutes", "late"),
    [
        ("push:n1 c1/n1", 10, True),
        ("push:n1 c1/n1", 9, False),
        ("/n1", 10, True),  # as an agent that writes to ClickHouse itself
        ("samples.csv", 10, False),
    ],
)
def test_samples_that_arrive_late_tell_of_a_spool_that_grew(
    facts: Store, source: str, minutes: int, late: bool
) -> None:
    rows = [row for _, row in sampled("GPU-0", minutes, minutes, 0.5)]
    ingest_tables(facts, SAMPLES, source, [pa.table({name: [row[name] for row in rows] for name in rows[0]})])
    arrived_at_noon(facts)
    assert fires(facts, "delivery-lag") == ({("", "n1"): 600.0} if late else {})


def test_a_backlog_that_has_arrived_is_no_spool_that_grows(facts: Store) -> None:
    for minutes in (120, 1):
        rows = [row for _, row in sampled("GPU-0", minutes, minutes, 0.5)]
        ingest_tables(
            facts, SAMPLES, f"push:n1 {minutes}", [pa.table({name: [row[name] for row in rows] for name in rows[0]})]
        )
    arrived_at_noon(facts)
    assert fires(facts, "delivery-lag") == {}


@pytest.mark.parametrize(("attempts", "expected"), [(3, {("r/webhook",): 3.0}), (2, {})])
def test_a_target_that_fails_three_times_is_an_alert(
    facts: Store, attempts: int, expected: dict[tuple[str, ...], float]
) -> None:
    nobody = {"receivers": {"r": {"webhook": {"url": "http://127.0.0.1:9/"}}}, "routes": [{"receivers": ["r"]}]}
    put(facts, [*submitted("job", 200), alive(59)])
    evaluate(facts, [shipped()["long-queue"]], ago(59), delay=timedelta(0), live=False)
    for number in range(attempts):
        (outcome,) = deliver(facts, Routing.model_validate(nobody), ago(30 - 10 * number))
        assert outcome.outcome == "failed"
    assert fires(facts, "alert-delivery-failing") == expected


SEQUENCE = '{"sequence":5188}'
TEXT = '{"sequence":5188,"text":"needs 8, 3 are free"}'


@pytest.mark.parametrize(
    ("message", "said"), [("as it is", ": as it is"), (SEQUENCE, ""), (TEXT, ": needs 8, 3 are free")]
)
def test_what_a_scheduler_writes_for_programs_is_in_no_text(facts: Store, message: str, said: str) -> None:
    """As found in the demo: `InsufficientCapacity: {"sequence":5188}`."""
    lost = {"reason": "Reclaimed", "queue": "train", "message": message}
    storm = [fact for number in range(5) for fact in ended(f"v{number}", 2, "preempted", **lost)]
    put(facts, [*submitted("job", 200, reason="TooFew", message=message), *storm, alive(0)])
    rules = [shipped()[name] for name in ("long-queue", "preemption-storm")]
    evaluate(facts, rules, ago(0), delay=timedelta(0), live=False)
    texts = {row["rule"]: row["annotations"] for row in alerts(facts, NOON)}
    assert texts["long-queue"]["summary"].endswith(f"TooFew{said}")
    assert texts["preemption-storm"]["description"] == "Preempted: physics." + said.replace(":", " Example:")


def test_a_holder_of_whom_nothing_is_known_any_more_stays_what_he_was(facts: Store) -> None:
    """No reading is no activity and no idleness: an alert that fires goes on, and no other begins."""
    known = [fact for fact in holder(200) if fact[0] != "samples" or fact[1]["ts"] <= ago(60)]
    rules = [rule for rule in load_rules() if rule.name.startswith("idle-holder")]
    put(facts, [*known, *sampled("GPU-1", 240, 0, 0.5)])
    for minutes in (70, 0):
        evaluate(facts, rules, ago(minutes), delay=timedelta(0), live=False)
    reported = {row["rule"]: row["state"] for row in alerts(facts, NOON)}
    assert reported == {"idle-holder-notice": "firing", "idle-holder": "firing", "idle-holder-reclaim": "firing"}


def test_every_rule_of_the_whole_store_is_seen_here_to_fire_and_not_to() -> None:
    said: dict[str, set[bool]] = defaultdict(set)
    for test in ast.parse(Path(__file__).read_text(encoding="utf-8")).body:
        for compared in (node for node in ast.walk(test) if isinstance(node, ast.Compare)):
            for call in (node for node in ast.walk(compared.left) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Name) and call.func.id == "fires" and isinstance(test, ast.FunctionDef):
                    for name in _rules_named(call.args[1], test):
                        said[name] |= _expected(compared.comparators[0])
    of_the_engine = {"alert-data-stopped", "alert-evaluation-failed"}  # test_evaluate.py
    assert {name for name, seen in said.items() if seen == {True, False}} == OF_THE_WHOLE_STORE - of_the_engine


def _rules_named(argument: ast.expr, test: ast.FunctionDef) -> set[str]:
    """The rule that a call names; of a parameter, all that the test is given."""
    where = [argument] if isinstance(argument, ast.Constant) else test.decorator_list
    found = {node.value for part in where for node in ast.walk(part) if isinstance(node, ast.Constant)}
    return {name for name in found if isinstance(name, str)} & set(shipped())


def _expected(right: ast.expr) -> set[bool]:
    """Whether something, or nothing, is expected; both where it depends on the case."""
    if isinstance(right, ast.Dict | ast.List):
        return {bool(ast.unparse(right) not in ("{}", "[]"))}
    return {True, False}
