"""slurmrestd's JSON, of several data parsers, says what the text says."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import rest, sacct
from collectors.slurm.files import read_text
from collectors.slurm.inventory import GresDevice
from collectors.slurm.jobs import Site
from collectors.slurm.rows import lifecycle_rows, placement_rows
from collectors.slurm.sources import Rest
from tests.collectors.slurm.records import TEN, accounted, controlled
from tests.slow_answers import answering

SITE = Site(cluster="alpha")
NOW = datetime(2026, 10, 2, tzinfo=UTC)
TEXT = """\
JobID|JobIDRaw|User|Account|QOS|Partition|State|Submit|Start|End|Elapsed|NodeList|AllocTRES|ReqTRES|Priority|ExitCode
123_4|127|ann|chem|normal|train|CANCELLED by root|2026-10-01T09:00:00|2026-10-01T10:00:00|2026-10-01T11:00:00|\
01:00:00|g[1-2]|cpu=8,gres/gpu=2|cpu=8,gres/gpu=2|4000|0:0
"""


@pytest.mark.parametrize("new", [False, True])
def test_json_of_accounting_gives_the_rows_that_its_text_gives(new: bool) -> None:
    parsed = rest.read_jobs({"jobs": [accounted(new)]})
    assert not parsed.problems
    assert (
        lifecycle_rows(parsed.records, SITE, NOW).rows == lifecycle_rows(sacct.read(TEXT, SITE).records, SITE, NOW).rows
    )


@pytest.mark.parametrize("new", [False, True])
def test_the_controllers_json_names_devices_by_node_in_order(new: bool) -> None:
    parsed = rest.read_jobs({"jobs": [controlled(new)]})
    assert not parsed.problems
    (job,) = parsed.records
    assert (job.ended_at, job.limit_seconds) == (None, None)
    inventory = {(node, index): GresDevice(f"{node}/{index}") for node in ("g1", "g2") for index in range(4)}
    rows = placement_rows([job], SITE, inventory, NOW).rows["events"]
    assert [(row["allocation_id"], row["device_id"]) for row in rows] == [
        ("9", "g1/0"),
        ("9", "g1/1"),
        ("9@g2", "g2/1"),
    ]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING", "COMPLETING"], "COMPLETING"),
        (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "CONFIGURING", "POWER_UP_NODE"], "CONFIGURING"),
        (["RUNNING", "RESIZING"], "RUNNING"),
        (["RESIZING"], "RUNNING"),
        (["PENDING", "REQUEUED"], "PENDING"),
        ("TIMEOUT", "TIMEOUT"),
    ],
)
def test_a_list_of_states_has_one_that_counts(words: Any, state: str) -> None:
    (job,) = rest.read_jobs({"jobs": [controlled(True, job_state=words)]}).records
    assert job.state == state


def test_numbers_are_plain_or_objects_or_none_at_all() -> None:
    assert [rest.number(value) for value in (4, 4.0, "4", {"set": True, "infinite": False, "number": 4})] == [4] * 4
    for value in (None, True, "x", 4294967294, float("nan"), {"set": False, "number": 4}, {"infinite": True}, [], {}):
        assert rest.number(value) is None


def test_nodes_of_both_shapes() -> None:
    nodes = [
        {"name": "g1", "state": "down", "state_flags": ["DRAIN"], "reason": "bad", "gres": "gpu:h100:4"},
        {
            "hostname": "g2",
            "state": ["IDLE", "DRAIN"],
            "gres": "gpu:4",
            "reason": "",
            "reason_changed_at": {"set": True, "infinite": False, "number": TEN},
        },
    ]
    parsed = rest.read_nodes({"nodes": nodes})
    assert [(node.name, sorted(node.states), node.available()) for node in parsed.records] == [
        ("g1", ["DOWN", "DRAIN"], False),
        ("g2", ["DRAIN", "IDLE"], False),
    ]


def test_a_bad_record_is_reported_by_its_place_and_the_others_go_on() -> None:
    entries = [
        accounted(True),
        7,
        accounted(True, job_id=None),
        accounted(True, state={"current": []}),
        accounted(False),
    ]
    parsed = rest.read_jobs({"jobs": entries})
    assert len(parsed.records) == 2
    assert [(problem.line, problem.job) for problem in parsed.problems] == [(2, ""), (3, ""), (4, "127")]
    assert rest.read_jobs({"jobs": {}}).problems[0].reason == "no jobs"


def test_an_answer_that_is_no_json_or_an_error_says_so() -> None:
    with pytest.raises(CollectorError, match="not JSON"):
        rest.document(b"<html>502</html>", "http://head")
    with pytest.raises(CollectorError, match="not a JSON object"):
        rest.document(b"[]", "http://head")
    with pytest.raises(CollectorError, match=r"Slurm says: Unable to connect, refused\. "):
        rest.document(
            b'{"jobs": [], "errors": [{"description": "Unable to connect", "error": "refused", "source": ""}]}', "http"
        )


def test_that_nothing_was_found_is_an_answer() -> None:
    """Slurm 22.05, of a time without jobs."""
    error = {"description": "Nothing found", "error_number": 9003, "error": "Nothing found with query", "source": "x"}
    found = rest.document(json.dumps({"jobs": [], "errors": [error]}), "http://head")
    assert rest.read_jobs(found).records == []
    with pytest.raises(CollectorError, match="Slurm says: away"):
        rest.document(json.dumps({"jobs": [], "errors": [error, {"description": "away"}]}), "http://head")


def test_a_json_file_is_recognised_and_another_refused() -> None:
    with pytest.raises(CollectorError, match=r"x\.json: JSON without jobs or nodes: it has meta, sinfo"):
        read_text('{"meta": {}, "sinfo": []}', SITE, {}, NOW, "x.json")
    nodes = {"nodes": [{"name": "g1", "state": "down", "state_flags": [], "gres": "gpu:1"}]}
    found, _ = read_text(json.dumps(nodes), SITE, {}, NOW, "nodes.json")
    assert [row["finding"] for row in found.rows["findings"]] == ["node_unavailable"]
    collected, problems = read_text(json.dumps({"jobs": [accounted(True)]}), SITE, {}, NOW, "jobs.json")
    assert not problems
    assert len(collected.rows["events"]) == 5


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["set", "infinite", "number", "current", "job_id", "start"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(max_examples=50)
@given(st.booleans(), st.dictionaries(st.sampled_from(sorted(accounted(True) | controlled(True))), JSON, max_size=4))
def test_no_json_breaks_the_reader(of_accounting: bool, odd: dict[str, Any]) -> None:
    entry = (accounted(True) if of_accounting else controlled(True)) | odd
    parsed = rest.read_jobs({"jobs": [entry]})
    assert len(parsed.records) + len(parsed.problems) == 1
    lifecycle_rows(parsed.records, SITE, NOW)
    placement_rows(parsed.records, SITE, {}, NOW)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["name", "state", "state_flags", "reason", "gres", "reason_changed_at"]), JSON))
def test_no_json_of_a_node_breaks_the_reader(entry: dict[str, Any]) -> None:
    parsed = rest.read_nodes({"nodes": [entry]})
    assert len(parsed.records) + len(parsed.problems) == 1


def test_a_slurmrestd_that_answers_letter_by_letter_holds_nothing_up() -> None:
    with (
        answering(lambda: itertools.chain([b"HTTP/1.1 200 OK\r\nX-"], itertools.repeat(b"y")), 0.05) as url,
        pytest.raises(CollectorError, match="no answer"),
    ):
        Rest(url, timeout_seconds=0.3).nodes()
