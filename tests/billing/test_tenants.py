"""Tenant mapping: the mapping by itself, and through the close."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import pytest

from billing.close import close
from billing.invoicing.invoices import InvoiceError, issue_all
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from billing.rates.globs import expression
from billing.tenants import (
    Combination,
    OwnerBook,
    TenantError,
    apply_mapping,
    current_mapping,
    load_mapping,
    mapping_history,
    parse_mapping,
    preview,
    unmapped,
)
from billing.tenants.owners import EVER_MS
from billing.verify import verify
from tests.billing.test_close import HOUR, START, at, device, event, put, sample
from tests.billing.test_examples import gpuledger
from tests.draws import drawn_seed, seldom
from tests.gpuledger.running import run
from tests.stores import fresh_store
from warehouse.store import Store, open_store

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
MAPPINGS = int(os.environ.get("GPULEDGER_MAPPINGS", "2"))
"""Random mappings under which the sums stay; ad hoc many more."""


def mapping(*rules: dict[str, Any], **keys: Any) -> Any:
    return parse_mapping({"rules": list(rules), **keys})


def owners(rules: Any, tenant: str = "", project: str = "", **more: str) -> list[tuple[Any, ...]]:
    """(from, to, tenant, project, cost center, unmapped) of what was told so, in hours of the first day."""
    reported = Combination(**{"tenant": tenant, "project": project, "queue": "", "cluster": "", "source": "", **more})
    return [
        (
            None if p.start_ms == 0 else (p.start_ms - START) / HOUR,
            None if p.end_ms == EVER_MS else (p.end_ms - START) / HOUR,
            p.owner.tenant,
            p.owner.project,
            p.owner.cost_center,
            p.owner.unmapped,
        )
        for p in OwnerBook(rules).periods(reported)
    ]


# --- the mapping alone -----------------------------------------------------------------------------------------------


def test_without_a_mapping_everything_is_as_reported_and_nothing_is_unmapped() -> None:
    assert owners(None, "chem", "p") == [(None, None, "chem", "p", "", False)]


def test_the_most_specific_rule_wins_and_what_it_does_not_name_stays_as_reported() -> None:
    rules = mapping(
        {"match": {"namespace": "chem-*"}, "tenant": "chem"},
        {"match": {"namespace": "chem-wet"}, "tenant": "chem", "project": "wet", "cost_center": "4711"},
        {"match": {"tenant": "physics"}, "cost_center": "42"},
    )
    assert owners(rules, "k8s", "chem-dry") == [(None, None, "chem", "chem-dry", "", False)]
    assert owners(rules, "k8s", "chem-wet") == [(None, None, "chem", "wet", "4711", False)]
    assert owners(rules, "physics", "x") == [(None, None, "physics", "x", "42", False)]
    assert owners(rules, "physics-lab", "x") == [(None, None, "physics-lab", "x", "", True)]


def test_what_matches_nothing_is_the_reported_tenants_else_the_named_owners() -> None:
    assert owners(mapping(unmapped_owner="platform"), "chem") == [(None, None, "chem", "", "", True)]
    assert owners(mapping(unmapped_owner="platform")) == [(None, None, "platform", "", "", True)]
    assert owners(mapping()) == [(None, None, "", "", "", True)]


def test_dates_are_local_to_the_mapping_and_their_end_is_exclusive() -> None:
    rules = mapping(
        {"match": {"project": "p"}, "tenant": "a", "effective_from": "2026-10-01T12:00", "effective_to": "2026-10-02"},
        {"match": {"project": "p"}, "tenant": "b", "effective_from": "2026-10-02"},
        timezone="Europe/Berlin",
    )
    assert owners(rules, "t", "p") == [
        (None, 10.0, "t", "p", "", True),
        (10.0, 22.0, "a", "p", "", False),
        (22.0, None, "b", "p", "", False),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"rules": 1}, "rules: found 1; expected a list"),
        ({"rules": [{"match": {"label": "x"}, "tenant": "a"}]}, r"match\.label: unknown key.*known here: tenant, proj"),
        ({"rules": [{"match": {}}]}, "a rule names a tenant, a project, a cost_center"),
        ({"rules": [{"match": {"nmespace": "x"}, "tenant": "a"}]}, "did you mean namespace"),
        ({"rules": [{"match": {"namespace": "a", "project": "b"}, "tenant": "t"}]}, "are the same thing"),
        ({"rules": [], "timezone": "Mars"}, "timezone: found 'Mars'; expected an IANA time zone"),
        ({"rules": [{"match": {"queue": 1}, "tenant": "t"}]}, r"rules\[0\]\.match\.queue: found 1; expected text"),
        (
            {
                "rules": [
                    {"match": {"queue": "a*"}, "tenant": "x", "effective_to": "2026-10-02"},
                    {"match": {"queue": "*b"}, "tenant": "y", "effective_from": "2026-10-01"},
                ]
            },
            r"rules\[0\] \(queue a\*\) and rules\[1\] \(queue \*b\) are equal.*time, on 2026-10-01: both "
            r"'a\*' and '\*b' can match one queue\. Let one of them begin as its names begin; end one",
        ),
        (
            {"rules": [{"match": {}, "tenant": "t", "effective_from": "2026-10-02", "effective_to": "2026-10-01"}]},
            "ends before it starts",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_one_line(content: dict[str, Any], says: str) -> None:
    with pytest.raises(TenantError, match=says) as caught:
        parse_mapping(content)
    assert "\n" not in str(caught.value)


def test_rules_of_other_times_or_words_are_no_tie() -> None:
    mapping(
        {"match": {"queue": "a*"}, "tenant": "x", "effective_to": "2026-10-01"},
        {"match": {"queue": "*b"}, "tenant": "y", "effective_from": "2026-10-01"},
        {"match": {"tenant": "physics"}, "tenant": "p"},
        {"match": {"tenant": "physics-lab"}, "tenant": "l"},
    )


def test_a_glob_as_an_expression_of_the_engine_matches_what_the_glob_does(tmp_path: Path) -> None:
    random = Random(7)
    texts = ["".join(random.choices("ab-[]^\\.*\n!é", k=random.randint(0, 4))) for _ in range(60)]
    globs = ["".join(random.choices("ab*?[]!-^\\.é", k=random.randint(0, 6))) for _ in range(300)]
    globs += ["[!a]", "[]a]", "[b-a]", "[!b-a]", "[a-]", "[^a]", "a[", "uid-*", "[a-c]?"]
    with open_store("chdb://memory") as store:
        rows = store.rows(
            "SELECT text, arrayMap(e -> match(text, e), {expressions:Array(String)}) AS found "
            "FROM (SELECT arrayJoin({texts:Array(String)}) AS text)",
            {"texts": texts, "expressions": [expression(glob) for glob in globs]},
        )
    assert len(rows) == len(texts)
    for row in rows:
        for glob, found in zip(globs, row["found"], strict=True):
            assert bool(found) == fnmatchcase(row["text"], glob), (row["text"], glob, expression(glob))


# --- through the close -----------------------------------------------------------------------------------------------


def ledger(store: Store, columns: str = "tenant, project, cost_center") -> list[tuple[Any, ...]]:
    """GPU-hours held and what they cost, by the columns."""
    held = "sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units {}) / 3600000"
    rows = store.rows(
        f"SELECT {columns}, {held.format('')} AS hours, {held.format('* contracted_unit_price')} AS cost "
        f"FROM ledger WHERE allocation_id != '' GROUP BY {columns} ORDER BY {columns}"
    )
    return [
        tuple(round(float(value), 6) if isinstance(value, Decimal | float) else value for value in row.values())
        for row in rows
    ]


def two_jobs(store: Store) -> None:
    """a holds GPU-0 from 01:00 to 05:00 for chem-dev, b GPU-1 from 02:00 to 04:00 for what nobody named."""
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    put(
        store,
        "events",
        [
            event(1, "a", "started", device_id="GPU-0", tenant="k8s", project="chem-dev", priority=100),
            event(5, "a", "finished", tenant="k8s", project="chem-dev"),
            event(2, "b", "started", device_id="GPU-1", tenant="", project="default"),
            event(4, "b", "finished", tenant="", project="default"),
        ],
    )
    put(store, "samples", [sample(hour, "GPU-0", 0.5) for hour in range(2, 6)])


def test_a_mapping_that_changes_within_a_job_splits_its_charge_there(store: Store) -> None:
    two_jobs(store)
    rates = [
        {"sku": "l4", "price_per_gpu_hour": "2.00"},
        {"sku": "l4-bio", "match": {"tenant": "bio"}, "price_per_gpu_hour": "1.00"},
    ]
    apply_rate_card(store, parse_rate_card({"currency": "EUR", "rates": rates}), "", "", NOW)
    rules = mapping(
        {"match": {"namespace": "chem-*"}, "tenant": "chem", "cost_center": "1", "effective_to": "2026-10-01T02:30"},
        {"match": {"namespace": "chem-*"}, "tenant": "bio", "cost_center": "2", "effective_from": "2026-10-01T02:30"},
        unmapped_owner="platform",
    )
    apply_mapping(store, rules, "ann", "bio takes over", NOW)
    close(store, until=at(6), now=NOW)
    # a: 1.5 h of chem at 2.00, then 2.5 h of bio at bio's own price; b: 2 h.
    assert ledger(store) == [
        ("bio", "chem-dev", "2", 2.5, 2.5),
        ("chem", "chem-dev", "1", 1.5, 3.0),
        ("platform", "default", "", 2.0, 4.0),
    ]
    assert ledger(store, "reported_tenant, reported_project, unmapped, priority") == [
        ("", "default", True, None, 2.0, 4.0),
        ("k8s", "chem-dev", False, 100, 4.0, 5.5),
    ]
    assert store.rows(
        "SELECT tenant, charge_period_start AS since, charge_period_end AS until, sku FROM ledger "
        "WHERE allocation_id = 'a' AND toHour(hour) = 2 ORDER BY since"
    ) == [
        {"tenant": "chem", "since": at(2), "until": at(2.5), "sku": "l4"},
        {"tenant": "bio", "since": at(2.5), "until": at(3), "sku": "l4-bio"},
    ]
    assert store.value("SELECT sum(used_unit_ms) / 3600000 AS used FROM ledger") == 2
    assert [(row["reported_project"], row["owner"], row["gpu_hours"]) for row in unmapped(store)] == [
        ("default", "platform", 2)
    ]
    assert [(row["tenant"], row["start_at"], row["end_at"]) for row in store.rows(
        "SELECT tenant, start_at, end_at FROM allocations WHERE allocation_id = 'a' ORDER BY start_at"
    )] == [("chem", at(1), at(2.5)), ("bio", at(2.5), at(5))]  # fmt: skip
    assert verify(store).balanced


@seldom(6, "a change of the mapping closes again")
def test_a_change_of_the_mapping_closes_again_exactly_the_hours_it_changes(store: Store) -> None:
    """Also what no rule fits is told, and taking all back gives the books as they were."""

    def closed(*rules: dict[str, Any], **keys: Any) -> tuple[int, int]:
        apply_mapping(store, mapping(*rules, **keys), "", "", NOW)
        report = close(store, until=at(8), now=NOW)
        return report.checked, report.changed

    two_jobs(store)
    close(store, until=at(8), now=NOW)
    columns = "tenant, project, cost_center, reported_tenant"
    before = ledger(store, f"{columns}, unmapped")
    assert unmapped(store) == []
    everything = {"match": {}, "cost_center": "all"}
    assert closed(everything) == (4, 4)  # 01:00 to 05:00, in which something is held
    assert ledger(store) == [("", "default", "all", 2.0, None), ("k8s", "chem-dev", "all", 4.0, None)]
    later = {"match": {"project": "chem-dev"}, "tenant": "chem", "effective_from": "2026-10-01T03:00"}
    assert closed(everything, later) == (2, 2)  # 03:00 to 05:00
    earlier = {**later, "effective_from": "2026-10-01T02:00"}
    # 02:00 alone changes: from 03:00 on it is chem's either way. Those hours are looked at, for chem's piece of the job
    # begins elsewhere, and stay as they are.
    assert closed(everything, earlier) == (3, 1)
    assert closed({"match": {"tenant": "k8s"}, "tenant": "k8s", "cost_center": ""}) == (4, 4)
    assert [row[:4] for row in ledger(store, columns)] == [row[:4] for row in before]
    assert unmapped(store) == [
        {
            "reported_tenant": "", "reported_project": "default", "queue": "", "cluster": "", "owner": "",
            "gpu_hours": Decimal("2.000000000"), "allocations": 1, "since": at(2), "until": at(4),
        }
    ]  # fmt: skip


def test_rules_over_workloads_queues_clusters_and_sources_reach_the_close(store: Store) -> None:
    put(store, "devices", [device(f"GPU-{n}", cluster="c1") for n in range(4)])
    rows = []
    for n, (name, more) in enumerate(
        {"a": {}, "b": {"queue": "gold"}, "c": {"source": "slurm"}, "d\\.x'": {"workload_id": "job-7 'ü\\"}}.items()
    ):
        rows += [
            event(0, name, "started", device_id=f"GPU-{n}", cluster="c1", **more),
            event(1, name, "finished", cluster="c1", **more),
        ]
    put(store, "events", rows)
    rules = mapping(
        {"match": {"cluster": "c?"}, "tenant": "whoever"},
        {"match": {"cluster": "c1", "queue": "gold"}, "tenant": "gold"},
        {"match": {"cluster": "c1", "source": "slurm"}, "tenant": "hpc"},
        {"match": {"workload": "job-[0-9]*\\"}, "tenant": "seven"},
        {"match": {"workload": "job-?"}, "tenant": "nobody", "effective_to": "2026-10-01"},
    )
    apply_mapping(store, rules, "", "", NOW)
    close(store, until=at(1), now=NOW)
    assert [(row[0], row[1]) for row in ledger(store, "allocation_id, tenant")] == [
        ("a", "whoever"), ("b", "gold"), ("c", "hpc"), ("d\\.x'", "seven"),
    ]  # fmt: skip


def test_an_end_that_was_lost_is_found_also_where_the_mapping_cuts_the_claim(store: Store) -> None:
    put(store, "devices", [device("GPU-0")])
    put(store, "events", [event(0, "a", "started", device_id="GPU-0")])
    put(store, "samples", [sample(2, "GPU-0", 1.0, "w-a"), *(sample(hour, "GPU-0", 0.0) for hour in range(3, 40))])
    apply_mapping(store, mapping({"match": {}, "tenant": "late", "effective_from": "2026-10-01T10:00"}), "", "", NOW)
    close(store, until=at(39), now=NOW)
    assert ledger(store, "tenant, estimated != ''") == [("t", 1, 2.0, None)]


def test_the_sum_over_tenants_is_the_same_whatever_the_mapping(store: Store) -> None:
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    random = Random(f"mappings {seed}")
    names = ["", "a", "ab", "chem", "k8s"]
    put(store, "devices", [device(f"GPU-{n}", units=4, cluster="c") for n in range(3)])
    events, samples = [], []
    for n in range(12):
        start = random.uniform(0, 8)
        end = start + random.uniform(0.01, 6)
        reported = {"tenant": random.choice(names), "project": random.choice(names), "queue": random.choice(names)}
        place = {"device_id": f"GPU-{n % 3}", "units": 1, "cluster": "c"}
        events += [event(start, f"j{n}", "started", **place, **reported), event(end, f"j{n}", "finished", cluster="c")]
        samples += [
            {**sample(hour, f"GPU-{n % 3}", random.random(), f"w-j{n}"), "cluster": "c"} for hour in range(1, 15)
        ]
    put(store, "events", events)
    put(store, "samples", samples)
    rates = parse_rate_card({"currency": "EUR", "rates": [{"sku": "l4", "price_per_gpu_hour": "1.37"}]})
    apply_rate_card(store, rates, "", "", NOW)
    close(store, until=at(15), now=NOW)
    sums = ["used_unit_ms", "idle_unit_ms", "unmetered_unit_ms", "unallocated_unit_ms", "unavailable_unit_ms"]
    query = f"SELECT {', '.join(f'sum({name}) AS {name}' for name in sums)} FROM ledger"
    by_job = (
        "SELECT allocation_id, sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) AS held "
        "FROM ledger GROUP BY 1 ORDER BY 1"
    )
    whole, jobs = store.rows(query), store.rows(by_job)
    for _ in range(MAPPINGS):
        rules: list[dict[str, Any]] = []
        for number in range(random.randint(3, 8)):
            keys = random.sample(["tenant", "project", "queue", "workload"], random.randint(0, 3))
            globs = {key: random.choice(["a*", "chem", "*", "?", "w-j1*", ""]) for key in keys}
            since = datetime.fromtimestamp(START / 1000, UTC) + timedelta(seconds=random.randint(0, 50_000))
            rule = {"match": globs, "tenant": f"t{number}", "effective_from": since.isoformat()}
            try:
                mapping(*rules, rule)
            except TenantError:
                continue
            rules.append(rule)
        apply_mapping(store, mapping(*rules), "", "", NOW)
        close(store, until=at(15), now=NOW)
        # Each entry is a whole number of unit-milliseconds held, so sums are exact; used is rounded down by less than
        # a millionth of one in each piece.
        mapped = store.rows(query)
        for name in sums[2:]:
            assert mapped[0][name] == whole[0][name]
        assert abs(mapped[0]["used_unit_ms"] - whole[0]["used_unit_ms"]) < Decimal("0.001")
        held = [sum(row[name] for name in sums) for row in (mapped[0], whole[0])]
        assert held[0] == held[1]
        assert store.rows(by_job) == jobs
    assert verify(store).balanced


# --- applied ---------------------------------------------------------------------------------------------------------


def test_the_same_mapping_again_changes_nothing_and_every_application_is_remembered(store: Store) -> None:
    one, two = mapping({"match": {}, "tenant": "a"}), mapping(unmapped_owner="b")
    assert current_mapping(store) is None
    for applied in (one, one, two, one):
        apply_mapping(store, applied, "o'brien", "研发", NOW)
    current = current_mapping(store)
    assert current is not None
    assert (current.mapping, current.author, current.reason) == (one, "o'brien", "研发")
    assert [(row["version"], row["author"], row["rules"]) for row in mapping_history(store)] == [
        (one.version, "o'brien", 1), (two.version, "o'brien", 0), (one.version, "o'brien", 1),
    ]  # fmt: skip
    assert store.value("SELECT count() AS n FROM audit FINAL WHERE action = 'tenants.apply'") == 3


def test_a_mapping_that_an_issued_invoice_used_is_only_ended_and_followed(store: Store) -> None:
    two_jobs(store)
    rates = parse_rate_card({"currency": "EUR", "rates": [{"sku": "l4", "price_per_gpu_hour": "2.00"}]})
    apply_rate_card(store, rates, "", "", NOW)
    chem = {"match": {"project": "chem-*"}, "tenant": "chem"}
    apply_mapping(store, mapping(chem), "", "", NOW)
    close(store, until=datetime(2026, 11, 1, tzinfo=UTC), now=NOW)
    apply_mapping(store, mapping({**chem, "tenant": "bio"}), "", "", NOW)
    with pytest.raises(InvoiceError, match="the tenant mapping changed after the last close"):
        issue_all(store, parse_period("2026-10", "UTC"), NOW)
    apply_mapping(store, mapping(chem), "", "", NOW)
    assert [invoice.tenant for invoice in issue_all(store, parse_period("2026-10", "UTC"), NOW)] == ["chem"]
    said = r"what was reported as tenant 'k8s', project 'chem-dev' at 2026-10-01 01:00Z: would go from 'chem', project "
    with pytest.raises(TenantError, match=said + r"'chem-dev' to 'bio'.* invoice GL-2026-00001 was computed from it"):
        apply_mapping(store, mapping({**chem, "tenant": "bio"}), "", "", NOW)
    with pytest.raises(TenantError, match="2026-10-01 04:00Z"):
        change = "2026-10-01T04:00"
        apply_mapping(
            store,
            mapping({**chem, "effective_to": change}, {**chem, "tenant": "bio", "effective_from": change}),
            "", "", NOW,
        )  # fmt: skip
    with pytest.raises(TenantError, match="from '', project 'default' to 'chem'"):
        apply_mapping(store, mapping(chem, {"match": {"project": "default"}, "tenant": "chem"}), "", "", NOW)
    followed = mapping(
        {**chem, "effective_to": "2026-11-01"},
        {**chem, "tenant": "bio", "effective_from": "2026-11-01"},
        {"match": {"project": "default"}, "tenant": "it"},  # nobody's until now, and it has no invoice
    )
    assert apply_mapping(store, followed, "", "", NOW) == followed.version


def test_a_preview_says_what_would_move_and_what_would_be_left(store: Store) -> None:
    two_jobs(store)
    close(store, until=at(6), now=NOW)
    found = preview(
        store,
        mapping(
            {
                "match": {"project": "chem-*"},
                "tenant": "chem",
                "cost_center": "7",
                "effective_from": "2026-10-01T03:00",
            },
            {"match": {"queue": "never"}, "tenant": "x"},
        ),
    )
    assert [(row["now"], row["then"], row["gpu_hours"]) for row in found.moves] == [
        ("k8s / chem-dev", "chem / chem-dev / cost center 7", 2)
    ]
    shown = ("reported_tenant", "reported_project", "owner", "gpu_hours")
    assert [tuple(row[name] for name in shown) for row in found.unmapped] == [
        ("", "default", "", 2), ("k8s", "chem-dev", "k8s", 2),
    ]  # fmt: skip
    assert found.idle == ["rules[1] (queue never)"]


@pytest.mark.usefixtures("engine_stays")
def test_before_the_first_close_a_mapping_is_not_said_to_fit(tmp_path: Path) -> None:
    """It said that the rule of a tenant with allocations matches none, and that everything has a rule."""
    url = f"chdb://{tmp_path}/store"
    with fresh_store(tmp_path / "store") as store:
        two_jobs(store)
    file = tmp_path / "tenants.yaml"
    file.write_text("rules:\n  - {match: {tenant: k8s}, tenant: chem}\n")
    check, _, unmapped_ = (
        run(f"tenants {command}", *files, "--store", url).stderr.strip()
        for command, files in (("check", [str(file)]), ("apply", [str(file)]), ("unmapped", []))
    )
    assert check == f"{file}: 1 rule; nothing is closed yet to check against. Next: gpuledger close --store {url}"
    assert unmapped_ == f"nothing is closed yet. Next: gpuledger close --store {url}"


@pytest.mark.usefixtures("engine_stays")
def test_the_commands(tmp_path: Path) -> None:
    url = f"chdb://{tmp_path}/store"
    with fresh_store(tmp_path / "store") as store:
        two_jobs(store)
    file = tmp_path / "tenants.yaml"
    file.write_text('rules:\n  - {match: {namespace: "chem-*"}, tenant: chem, effective_from: 2026-10-01}\n')
    assert load_mapping(file).rules[0].tenant == "chem"
    gpuledger("tenants", "apply", str(file), "--store", url, "--author", "ann", "--reason", "start")
    assert "chem-*" in gpuledger("tenants", "list", "--store", url, "--format", "csv")
    gpuledger("close", "--until", "2026-10-01T06:00Z", "--store", url)
    printed = gpuledger("tenants", "unmapped", "--store", url, "--format", "csv")
    assert printed.splitlines()[1].startswith(",default,,,,2.000000000,1,2026-10-01T02:00:00.000Z")
