"""What users write changes nothing: the same rows whatever is in their columns, and nobody else's record moves.

A cluster's records are drawn, written as Slurm writes them, and read; then again with users' text in every place in
which users write. The rows must be the same, but for the words themselves where a site bills by one of them.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import rest, sacct
from collectors.slurm.files import read_text
from collectors.slurm.inventory import GresDevice
from collectors.slurm.jobs import Job, Site
from collectors.slurm.parsed import Parsed
from collectors.slurm.rows import lifecycle_rows, placement_rows
from tests.collectors.slurm import hostile
from tests.collectors.slurm.records import TEN, TRES, accounted, controlled

SITE = Site(cluster="alpha")
NOW = datetime(2026, 10, 2, tzinfo=UTC)
INVENTORY = {(f"g{node}", index): GresDevice(f"GPU-{node}-{index}") for node in (1, 2) for index in range(4)}
STATES = ["RUNNING", "PENDING", "COMPLETED", "CANCELLED", "TIMEOUT", "REQUEUED", "PREEMPTED", "SUSPENDED", "NODE_FAIL"]
WRITTEN_IN_ACCOUNTING = ("name", "working_directory", "constraints", "container", "mcs", "flags", "comment", "wckey")
WRITTEN_IN_THE_QUEUE = (
    "name", "comment", "wckey", "command", "current_working_directory", "standard_output", "standard_error", "features",
    "container", "dependency", "licenses", "tres_per_node", "tres_per_job", "tres_per_task", "batch_features", "extra",
)  # fmt: skip
SEEDS = st.integers(0, 2**32).map(random.Random)


def records(draw: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Accounting's and the controller's of the same jobs."""
    new = draw.random() < 0.5
    accounting, queue = [], []
    for job_id in range(1, draw.randrange(2, 8)):
        state, start = draw.choice(STATES), TEN + draw.randrange(0, 5000)
        account, nodes = draw.choice(["chem", "bio", "a|b", "r&d energy", "quo`te"]), draw.choice(["g1", "g[1-2]"])
        submitted = TEN - draw.randrange(0, 500)
        accounting.append(
            accounted(
                new,
                job_id=job_id,
                account=account,
                state={"current": [state] if new else state, "reason": "None"},
                nodes=nodes,
                time={"submission": submitted, "start": start, "end": start + 60, "suspended": 0, "limit": 5},
                name="plain",
            )
        )
        queue.append(
            controlled(
                new,
                job_id=job_id,
                account=account,
                job_state=[state] if new else state,
                nodes=nodes,
                submit_time=submitted,
                start_time=start,
                end_time=start + 60,
                tres_alloc_str="gres/gpu=2",
                gres_detail=["gpu:1(IDX:0)", "gpu:1(IDX:3)"] if nodes == "g[1-2]" else ["gpu:2(IDX:1-2)"],
                name="plain",
            )
        )
    return accounting, queue


def written(draw: random.Random, entries: list[dict[str, Any]], places: tuple[str, ...]) -> list[dict[str, Any]]:
    """With users' text in some of the places in which users write, as Slurm's JSON has it there."""

    def text(place: str) -> Any:
        words = hostile.text(draw)
        shapes = {
            "comment": {"administrator": None, "job": words, "system": None},
            "wckey": {"wckey": words, "flags": []},
            "mcs": {"label": words},
            "flags": [words],
        }
        return shapes.get(place, words) if places is WRITTEN_IN_ACCOUNTING else words

    return [entry | {place: text(place) for place in places if draw.random() < 0.7} for entry in entries]


def as_slurm_writes(entries: list[dict[str, Any]]) -> bytes:
    """json-c keeps the bytes of a text as they are, but for quotes, backslashes and control characters."""
    return json.dumps({"jobs": entries}, ensure_ascii=False).encode("utf-8", "surrogateescape")


def rows(parsed: Parsed[Job], site: Site = SITE) -> list[dict[str, Any]]:
    assert not parsed.problems
    found = lifecycle_rows(parsed.records, site, NOW)
    found += placement_rows(parsed.records, site, INVENTORY, NOW)
    return found.rows.get("events", [])


def read(content: bytes) -> Parsed[Job]:
    return rest.read_jobs(rest.document(content, "Slurm"))


@settings(max_examples=60)
@given(SEEDS)
def test_users_text_changes_no_row_of_json(draw: random.Random) -> None:
    for entries, places in zip(records(draw), (WRITTEN_IN_ACCOUNTING, WRITTEN_IN_THE_QUEUE), strict=True):
        plain = rows(read(as_slurm_writes(entries)))
        assert rows(read(as_slurm_writes(written(draw, entries, places)))) == plain
        assert {row["tenant"] for row in plain} <= {entry["account"] for entry in entries}


@settings(max_examples=30)
@given(SEEDS)
def test_a_site_that_bills_by_wckey_bills_each_job_by_its_own(draw: random.Random) -> None:
    site = replace(SITE, tenant="wckey")
    entries = written(draw, records(draw)[0], WRITTEN_IN_ACCOUNTING)
    found = rows(read(as_slurm_writes(entries)), site)
    tenants = {row["workload_id"]: row.get("tenant", "") for row in found}
    reported = {str(entry["job_id"]): entry["wckey"]["wckey"] for entry in entries}
    assert tenants == {
        job: text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for job, text in reported.items()
    }


@settings(max_examples=60)
@given(SEEDS)
def test_in_accountings_text_an_account_is_read_whole_and_moves_no_other_record(draw: random.Random) -> None:
    """Operators name accounts, and may use what users may not; a name with a line of its own costs its own job."""
    names = sacct.FORMAT.split(",")
    values = {
        "Cluster": "tiny", "User": "ann", "State": "COMPLETED", "QOS": "normal", "Submit": "2026-10-01T09:00:00",
        "Start": "2026-10-01T10:00:00", "End": "2026-10-01T11:00:00", "Partition": "train", "Elapsed": "01:00:00",
        "NodeList": "g1", "AllocTRES": "gres/gpu=2", "ReqTRES": "gres/gpu=2",
    }  # fmt: skip

    def line(job: int, account: str) -> str:
        of_job = values | {"JobID": str(job), "JobIDRaw": str(job), "Account": account}
        return "|".join(of_job.get(name, "") for name in names)

    accounts = {job: " ".join(hostile.text(draw).split()).strip() or "x" for job in range(1, 6)}
    text = "\n".join([sacct.FORMAT.replace(",", "|"), *(line(job, account) for job, account in accounts.items())])
    found = rows(sacct.read(text, SITE))
    assert {row["workload_id"]: row["tenant"] for row in found} == {str(job): name for job, name in accounts.items()}
    assert len(found) == 3 * len(accounts)


@settings(max_examples=40)
@given(SEEDS)
def test_a_record_of_json_that_cannot_be_read_is_named_and_the_others_stay(draw: random.Random) -> None:
    entries, _ = records(draw)
    place = draw.randrange(len(entries))
    broken = [*entries]
    broken[place] = entries[place] | draw.choice(
        [{"state": {"current": hostile.text(draw)}}, {"nodes": "g[1-"}, {"tres": {"allocated": "=,"}}]
    )
    parsed = read(as_slurm_writes(broken))
    assert [problem.job for problem in parsed.problems] == [str(entries[place]["job_id"])]
    others = [entry for entry in entries if entry is not entries[place]]
    assert [job.job_id for job in parsed.records] == [str(entry["job_id"]) for entry in others]


@settings(max_examples=40)
@given(SEEDS)
def test_whatever_is_taken_for_a_file_of_slurms_makes_no_row_that_was_not_asked_for(draw: random.Random) -> None:
    """A text that is all a user's is refused, or it is what it says and nothing else."""
    text = hostile.text(draw)
    try:
        collected, _ = read_text(text, SITE, INVENTORY, NOW, "file")
    except CollectorError:
        return
    assert not collected.rows.get("events")


@pytest.mark.parametrize("key", ["gres_detail", "tres_alloc_str"])
def test_gpus_are_counted_from_what_slurm_writes_not_from_what_was_asked(key: str) -> None:
    asked = controlled(**{key: controlled()[key]}, tres_per_node="gres:gpu:9", tres_per_job="gres/gpu=99")
    (job,) = read(as_slurm_writes([asked])).records
    assert (job.gpus.whole, sum(entry.count for entries in job.placed.values() for entry in entries)) == (3, 3)
    assert TRES[1]["count"] == 2
