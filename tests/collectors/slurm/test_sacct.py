"""Accounting text -> events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import sacct
from collectors.slurm.files import read_text
from collectors.slurm.inventory import GresDevice
from collectors.slurm.jobs import ENDINGS, Site
from collectors.slurm.rows import lifecycle_rows
from ingest.check_rows import check_rows
from warehouse.records import EVENTS

SITE = Site(cluster="alpha")
NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)
HEADER = (
    "JobID|JobIDRaw|User|State|QOS|Submit|Start|End|Partition|Elapsed|Suspended|NodeList|AllocTRES|ReqTRES"
    "|Priority|ExitCode|Account"
)


def line(**columns: str) -> str:
    """A line of accounting: job 7 of ann, 2 GPUs of g1 from 10:00 to 11:00, unless said otherwise."""
    reported = {
        "JobID": "7",
        "JobIDRaw": columns.get("JobID", "7"),
        "User": "ann",
        "Account": "chem",
        "QOS": "normal",
        "Partition": "train",
        "State": "COMPLETED",
        "Submit": "2026-10-01T09:00:00",
        "Start": "2026-10-01T10:00:00",
        "End": "2026-10-01T11:00:00",
        "Elapsed": "01:00:00",
        "Suspended": "00:00:00",
        "NodeList": "g1",
        "AllocTRES": "cpu=8,gres/gpu=2,node=1",
        "ReqTRES": "cpu=8,gres/gpu=2,node=1",
        "Priority": "4000",
        "ExitCode": "0:0",
    } | columns
    return "|".join(reported[name] for name in HEADER.split("|"))


WAITING = {"Start": "Unknown", "End": "Unknown", "NodeList": "None assigned", "AllocTRES": "", "Elapsed": "00:00:00"}


def rows(*lines: str, site: Site = SITE) -> list[dict[str, Any]]:
    parsed = sacct.read("\n".join([HEADER, *lines]) + "\n", site)
    assert not parsed.problems
    found = lifecycle_rows(parsed.records, site, NOW).rows.get("events", [])
    assert not check_rows(EVENTS, found, NOW).bad
    return found


def reported(found: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [(f"{row['ts']:%H:%M}", row["event"], *(row.get(column) for column in columns)) for row in found]


def test_a_job_is_submitted_started_on_its_node_and_finished() -> None:
    assert rows(line()) == [
        {
            "ts": datetime(2026, 10, 1, hour, tzinfo=UTC),
            "cluster": "alpha",
            "source": "slurm",
            "allocation_id": "7",
            "workload_id": "7",
            "event": event,
            "tenant": "chem",
            "project": "chem",
            "queue": "train",
            **more,
        }
        for hour, event, more in (
            (9, "submitted", {"gpus": 2}),
            (10, "started", {"gpus": 2, "node": "g1", "priority": 4000}),
            (11, "finished", {"reason": "COMPLETED"}),
        )
    ]


@pytest.mark.parametrize("state", sorted(set(ENDINGS) - {"CANCELLED"}))
def test_every_ending_has_an_event_and_keeps_slurms_word(state: str) -> None:
    assert reported(rows(line(State=state, ExitCode="1:9")), "reason", "message")[-1] == (
        "11:00",
        ENDINGS[state],
        state,
        "exit code 1:9",
    )


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("TIMEOUT", "failed"),
        ("NODE_FAIL", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("OUT_OF_ME+", "failed"),
        ("BOOT_FAIL", "failed"),
        ("DEADLINE", "failed"),
        ("PREEMPTED", "preempted"),
    ],
)
def test_words_of_slurm_and_ours(state: str, event: str) -> None:
    assert rows(line(State=state))[-1]["event"] == event


def test_who_cancelled_is_the_actor() -> None:
    assert reported(rows(line(State="CANCELLED by 1234")), "actor", "reason")[-1] == (
        "11:00",
        "cancelled",
        "1234",
        "CANCELLED",
    )
    assert rows(line(State="CANCELLED"))[-1].get("actor") is None


def test_a_job_cancelled_while_it_waited_held_nothing() -> None:
    started_by_name_only = {**WAITING, "Start": "2026-10-01T09:30:00", "End": "2026-10-01T09:30:00"}
    found = rows(line(State="CANCELLED by 0", **started_by_name_only))
    assert reported(found, "gpus", "actor") == [("09:00", "submitted", 2, None), ("09:30", "cancelled", None, "0")]


def test_a_waiting_job_is_submitted_only_though_a_start_is_planned() -> None:
    planned = {**WAITING, "Start": "2026-10-01T18:00:00"}
    assert reported(rows(line(State="PENDING", **planned))) == [("09:00", "submitted")]
    assert reported(rows(line(State="CONFIGURING", End="Unknown"))) == [("09:00", "submitted")]


def test_a_running_or_suspended_job_has_no_end_and_keeps_its_gpus() -> None:
    for state in ("RUNNING", "SUSPENDED", "COMPLETING"):
        assert reported(rows(line(State=state, End="Unknown"))) == [("09:00", "submitted"), ("10:00", "started")]


def test_suspended_time_is_reported_and_still_held() -> None:
    found = rows(line(Suspended="00:20:00", Elapsed="00:40:00"))
    assert reported(found, "message")[1:] == [
        ("10:00", "started", None),
        ("11:00", "finished", "suspended for 1200 s, GPUs kept"),
    ]


def test_a_requeued_job_has_several_runs_of_one_allocation() -> None:
    found = rows(
        line(State="PREEMPTED", End="2026-10-01T10:20:00", Elapsed="00:20:00"),
        line(State="REQUEUED", Submit="2026-10-01T10:20:00", Start="2026-10-01T10:30:00", End="2026-10-01T10:35:00"),
        line(Submit="2026-10-01T10:35:00", Start="2026-10-01T11:00:00", End="2026-10-01T12:00:00", NodeList="g2"),
    )
    assert {row["allocation_id"] for row in found} == {"7"}
    assert reported(found, "node", "reason") == [
        ("09:00", "submitted", None, None),
        ("10:00", "started", "g1", None),
        ("10:20", "preempted", None, "PREEMPTED"),
        ("10:20", "submitted", None, None),
        ("10:30", "started", "g1", None),
        ("10:35", "cancelled", None, "REQUEUED"),
        ("10:35", "submitted", None, None),
        ("11:00", "started", "g2", None),
        ("12:00", "finished", None, "COMPLETED"),
    ]


def test_a_resized_job_whose_later_record_names_the_first_start_is_held_once() -> None:
    """As slurmctld tells it after slurmdbd was away: submitted is the resize, and started is before it."""
    found = rows(
        line(State="RESIZING", NodeList="g[1-2]", End="2026-10-01T10:20:00", Elapsed="00:20:00"),
        line(Submit="2026-10-01T10:20:00", AllocTRES="gres/gpu=1"),
    )
    held = [("10:00", "started", 1), ("10:00", "started", 1), ("10:20", "finished", None), ("10:20", "finished", None)]
    assert reported(found, "gpus") == [
        ("09:00", "submitted", 2),
        *held,
        ("10:20", "submitted", 2),
        ("10:20", "started", 1),
        ("11:00", "finished", None),
    ]


@pytest.mark.parametrize("state", ["REQUEUED", "RESIZING"])
def test_a_run_that_was_over_in_its_first_second_does_not_end_the_next(state: str) -> None:
    found = rows(
        line(State=state, NodeList="g[1-2]", End="2026-10-01T10:00:00", Elapsed="00:00:00"),
        line(Submit="2026-10-01T10:00:00"),
    )
    assert [event for _, event in reported(found)] == ["submitted", "submitted", "started", "finished"]


def test_array_tasks_and_het_components_are_named_by_their_raw_ids() -> None:
    found = rows(
        line(JobID="123_4", JobIDRaw="127", **{"State": "RUNNING", "End": "Unknown"}),
        line(JobID="123_[5-9%2]", JobIDRaw="123", State="PENDING", **WAITING),
        line(JobID="200+1", JobIDRaw="201", State="RUNNING", End="Unknown"),
    )
    assert [(row["event"], row["allocation_id"], row["workload_id"], row.get("message")) for row in found] == [
        ("submitted", "127", "127", "123_4"),
        ("started", "127", "127", None),
        ("submitted", "123", "123", "123_[5-9%2]"),
        ("submitted", "201", "201", "200+1"),
        ("started", "201", "201", None),
    ]


def test_a_job_on_several_nodes_is_an_allocation_for_each() -> None:
    found = rows(line(NodeList="g[1-3]", AllocTRES="gres/gpu=7,node=3"))
    held = [(row["event"], row["allocation_id"], row.get("node"), row.get("gpus")) for row in found[1:]]
    assert held == [
        ("started", "7", "g1", 3),
        ("started", "7@g2", "g2", 2),
        ("started", "7@g3", "g3", 2),
        ("finished", "7", None, None),
        ("finished", "7@g2", None, None),
        ("finished", "7@g3", None, None),
    ]
    assert {row["workload_id"] for row in found} == {"7"}


def test_mig_instances_are_units_of_their_profile() -> None:
    typed = "cpu=2,gres/gpu=3,gres/gpu:a100_1g.5gb=2,gres/gpu:a100_3g.20gb=1"
    found = rows(line(State="RUNNING", End="Unknown", AllocTRES=typed))
    assert [(row["allocation_id"], row["gpus"], row["units"], row["partition_profile"]) for row in found[1:]] == [
        ("7", 1, 1, "1g.5gb"),
        ("7", 1, 1, "1g.5gb"),
        ("7", 1, 3, "3g.20gb"),
    ]
    assert len({row["partition_id"] for row in found[1:]}) == 3
    assert reported(rows(line(AllocTRES=typed)), "allocation_id")[-1] == ("11:00", "finished", "7")


def test_shards_are_shares_only_if_the_site_says_how_many_are_a_gpu() -> None:
    shards = line(State="RUNNING", End="Unknown", AllocTRES="cpu=1,gres/shard=2", ReqTRES="cpu=1,gres/shard=2")
    assert [row["gpus"] for row in rows(shards, site=Site(shares_per_gpu={"shard": 8}))] == [0.25, 0.25]
    parsed = sacct.read(f"{HEADER}\n{shards}", SITE)
    found = lifecycle_rows(parsed.records, SITE, NOW)
    assert "events" not in found.rows
    assert [(row["workload_id"], row["message"]) for row in found.rows["findings"]] == [
        ("7", "shard: not reported how many are a GPU")
    ]
    assert found.dropped == {"shard: not reported how many are a GPU": 1}


def test_a_file_has_no_nodes_so_the_inventory_says_how_many_shards_a_gpu_has() -> None:
    shards = line(State="RUNNING", End="Unknown", AllocTRES="cpu=1,gres/shard=2", ReqTRES="cpu=1,gres/shard=2")
    inventory = {("gpu01", 0): GresDevice("GPU-a", device_units=8), ("gpu02", 0): GresDevice("GPU-b")}
    said, _ = read_text(f"{HEADER}\n{shards}", SITE, inventory, NOW, "jobs.txt")
    assert [row["gpus"] for row in said.rows["events"]] == [0.25, 0.25]
    percents = line(State="RUNNING", End="Unknown", AllocTRES="cpu=1,gres/mps=50", ReqTRES="cpu=1,gres/mps=50")
    said, _ = read_text(f"{HEADER}\n{percents}", SITE, inventory, NOW, "jobs.txt")
    assert "events" not in said.rows, "half of a GPU is not six"
    in_percents = {("gpu01", 0): GresDevice("GPU-a", device_units=100)}
    said, _ = read_text(f"{HEADER}\n{percents}", SITE, in_percents, NOW, "jobs.txt")
    assert [row["gpus"] for row in said.rows["events"]] == [0.5, 0.5]
    for other in (128, 200):
        said, _ = read_text(
            f"{HEADER}\n{percents}", SITE, {("gpu01", 0): GresDevice("GPU-a", device_units=other)}, NOW, "j"
        )
        assert "events" not in said.rows, f"50 may be half of a GPU, or 50 of {other}"
        assert [row["message"] for row in said.rows["findings"]] == ["mps: not reported how many are a GPU"]
    inventory["gpu03", 0] = GresDevice("GPU-c", device_units=4)
    said, _ = read_text(f"{HEADER}\n{shards}", SITE, inventory, NOW, "jobs.txt")
    assert "events" not in said.rows, "where devices differ nothing is assumed"


def test_jobs_without_gpus_and_steps_are_counted_and_left_out() -> None:
    parsed = sacct.read(
        "\n".join([HEADER, line(AllocTRES="cpu=4", ReqTRES="cpu=4"), line(JobID="7.batch"), line(JobID="7.0")]), SITE
    )
    found = lifecycle_rows(parsed.records, SITE, NOW)
    assert (found.rows, found.dropped, parsed.skipped) == ({}, {"no GPUs": 1}, {"step": 2})


def test_what_was_asked_counts_where_accounting_does_not_track_gpus() -> None:
    assert rows(line(AllocTRES="cpu=8,node=1"))[1]["gpus"] == 2


def test_a_site_says_which_word_is_tenant_project_and_queue() -> None:
    site = Site(tenant="user", project=None, queue="qos", preemptible_qos=("scav*",), preemptible_partitions=("spot",))
    (submitted, *_) = rows(line(QOS="scavenger"), site=site)
    assert submitted["tenant"] == "ann"
    assert "project" not in submitted
    assert (submitted["queue"], submitted["preemptible"]) == ("scavenger", True)
    assert rows(line(), site=site)[0]["preemptible"] is False
    assert "preemptible" not in rows(line())[0]


def test_columns_come_in_any_order_and_a_separator_may_end_the_line() -> None:
    names, values = HEADER.split("|"), line().split("|")
    turned = "|".join([*reversed(names), ""]) + "\r\n" + "|".join([*reversed(values), ""]) + "\r\n"
    assert lifecycle_rows(sacct.read(turned, SITE).records, SITE, NOW).rows["events"] == rows(line())


def test_the_repeated_hour_is_distinguished_by_the_elapsed_time() -> None:
    berlin = Site(zone=ZoneInfo("Europe/Berlin"))
    twice = {"Submit": "2026-10-25T01:00:00", "Start": "2026-10-25T01:30:00", "End": "2026-10-25T02:30:00"}
    for elapsed, ends, guess in (("01:00:00", "00:30", None), ("02:00:00", "01:30", None)):
        found = rows_at_night(line(**twice, Elapsed=elapsed), berlin)
        assert reported(found, "message")[-1] == (ends, "finished", guess)
    (*_, finished) = rows_at_night(line(**twice, Elapsed="00:11:00"), berlin)
    assert finished["message"] == "the clock showed this hour twice: the earlier one was taken"


def rows_at_night(text: str, site: Site) -> list[dict[str, Any]]:
    return lifecycle_rows(sacct.read(f"{HEADER}\n{text}", site).records, site, NOW).rows["events"]


def test_bad_lines_are_reported_with_their_number_and_the_others_go_on() -> None:
    text = "\n".join(
        [
            "",
            HEADER,
            line(),
            "7|7|ann",
            line(Start="yesterday"),
            line(State="SLEEPING"),
            line(JobID="x;rm"),
            line(NodeList="g[1-"),
            line(AllocTRES="gres/gpu=many"),
            line(JobID="8"),
        ]
    )
    parsed = sacct.read(text, SITE)
    assert [job.job_id for job in parsed.records] == ["7", "8"]
    assert [(problem.line, problem.reason) for problem in parsed.problems] == [
        (4, "number of columns"),
        *[(number, "unreadable") for number in range(5, 10)],
    ]
    assert "state 'SLEEPING' is not known" in parsed.problems[2].detail


@pytest.mark.parametrize("account", ["a|b", "r&d energy", "quo`te", "x/y", "ünï", "a|COMPLETED|gres/gpu=9|", "a b|"])
def test_an_account_is_read_whole_as_the_last_column(account: str) -> None:
    assert {row["tenant"] for row in rows(line(Account=account))} == {account}


@pytest.mark.parametrize("column", ["QOS", "Partition", "User"])
def test_a_separator_in_another_name_costs_its_record_and_names_the_job(column: str) -> None:
    parsed = sacct.read(f"{HEADER}\n{line(**{column: 'a|b'})}\n{line(JobID='8')}", SITE)
    assert [job.job_id for job in parsed.records] == ["8"]
    assert [(problem.line, problem.job) for problem in parsed.problems] == [(2, "7")]


@pytest.mark.parametrize("column", ["WCKey", "JobName", "Comment", "SubmitLine", "WorkDir", "Container", "Extra"])
def test_a_text_with_a_column_that_users_write_is_refused_whole(column: str) -> None:
    with pytest.raises(CollectorError, match=rf"column {column.lower()}: users may write .* Use sacct --json"):
        sacct.read(f"{HEADER}|{column}\n{line()}|x", SITE)


def test_what_we_ask_for_is_what_we_read() -> None:
    assert {name.lower() for name in sacct.FORMAT.split(",")} <= sacct.SAFE
    assert sacct.FORMAT.endswith(",Account")


def test_text_without_a_header_is_refused_whole() -> None:
    with pytest.raises(CollectorError, match=r"no header with JobID and State.*--parsable2"):
        sacct.read("slurmdbd: error: connection refused\n", SITE)


WORDS = st.sampled_from(
    [
        "",
        "Unknown",
        "7",
        "7_[1-3]",
        "RUNNING",
        "CANCELLED by 5",
        "2026-10-25T02:30:00",
        "gres/gpu=2",
        "g[1-2]",
        "|",
        "∞",
    ]
)


@settings(max_examples=50)
@given(st.lists(st.lists(WORDS | st.text(max_size=12), max_size=20).map("|".join), max_size=6))
def test_no_text_breaks_the_reader_and_every_row_fits_the_contract(lines: list[str]) -> None:
    parsed = sacct.read("\n".join([HEADER, *lines]), Site(zone=ZoneInfo("Europe/Berlin"), cluster="alpha"))
    found = lifecycle_rows(parsed.records, SITE, NOW).rows.get("events", [])
    assert not check_rows(EVENTS, found, datetime(2030, 1, 1, tzinfo=UTC)).reasons.keys() - {
        "future_timestamp",
        "out_of_range_ts",
    }


FIELDS = {
    "State": st.sampled_from([*sorted(ENDINGS), "RUNNING", "PENDING", "CANCELLED by 9", "SUSPENDED", "NOPE"]),
    "NodeList": st.sampled_from(["g1", "g[1-4]", "None assigned", "g[2,5],h1", "g["]),
    "AllocTRES": st.sampled_from(["", "gres/gpu=1", "gres/gpu=9,gres/gpu:1g.5gb=2", "gres/shard=3", "cpu=1", "=,"]),
    "Start": st.sampled_from(["Unknown", "2026-10-01T10:00:00", "2026-10-25T02:10:00", "2026-03-29T02:10:00", "?"]),
    "End": st.sampled_from(["Unknown", "2026-10-01T12:00:00", "2026-10-25T02:40:00"]),
    "Elapsed": st.sampled_from(["", "00:30:00", "1-00:00:00", "UNLIMITED"]),
}


@settings(max_examples=50)
@given(st.fixed_dictionaries(FIELDS))
def test_every_kind_of_record_is_events_or_a_reason(columns: dict[str, str]) -> None:
    site = Site(zone=ZoneInfo("Europe/Berlin"), cluster="alpha")
    parsed = sacct.read(f"{HEADER}\n{line(**columns)}", site)
    found = lifecycle_rows(parsed.records, site, NOW)
    events = found.rows.get("events", [])
    assert len(parsed.records) + len(parsed.problems) == 1
    assert events or found.dropped or parsed.problems
    keys = [tuple(row.get(name, "") for name in EVENTS.key) for row in events]
    assert len(keys) == len(set(keys))
    started = sum(row.get("gpus", 0) for row in events if row["event"] == "started")
    if started and "shard" not in columns["AllocTRES"]:
        assert started == parsed.records[0].gpus.whole
    assert not check_rows(EVENTS, events, datetime(2027, 1, 1, tzinfo=UTC)).bad
