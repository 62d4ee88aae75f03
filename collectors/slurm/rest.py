"""JSON of slurmrestd, `sacct --json`, `squeue --json` and `sinfo --json` -> jobs and nodes.

    /slurmdb/v0.0.NN/jobs, sacct --json     accounting: time.start, tres.allocated, state.current, kill_request_user
    /slurm/v0.0.NN/jobs, squeue --json      the controller: start_time, tres_alloc_str, job_state, gres_detail
    /slurm/v0.0.NN/nodes, sinfo --json      the controller: state, gres, reason

Users write names, comments and wckeys: in JSON they are values, whatever they hold. Bytes that are no UTF-8 come as
they were written, so they are replaced, not refused: one job's name would else hide everybody's jobs.

Versions differ: a number is plain, or {"set": true, "infinite": false, "number": 4}; a state is a word, or a list of
a word and flags; what is missing may be null, "" or 0. Times are seconds since 1970, so zones do not matter.

Source: https://slurm.schedmd.com/rest_api.html, openapi_release_notes.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from collectors.errors import CollectorError
from collectors.slurm.hostlists import hosts
from collectors.slurm.jobs import ENDINGS, HOLDING, STATES, WAITING, Job, Word, begun
from collectors.slurm.nodes import Node, states_of
from collectors.slurm.parsed import Parsed
from collectors.slurm.sacct import NO_NODES
from collectors.slurm.tres import Gpus, Gres, gpu_gres, gpus, gres, tres_of_json

T = TypeVar("T")
_LATEST = 1 << 37
"""Seconds since 1970, far ahead: Slurm writes its NO_VAL and INFINITE as times too."""
_NOTHING_FOUND = 9003
"""ESLURM_REST_EMPTY_RESULT."""
_NO_VALUE = (0xFFFFFFFE, 0xFFFFFFFF)


def document(text: str | bytes, where: str) -> dict[str, Any]:
    """Errors: CollectorError if it is not JSON object, or the errors that it holds and nothing else."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError) as mistake:
        raise CollectorError(where, f"not JSON: {str(mistake)[:120]}", "Is this slurmrestd's address?") from None
    if not isinstance(found, dict):
        raise CollectorError(where, "not a JSON object", "Is this slurmrestd's address?")
    if not (found.get("jobs") or found.get("nodes")) and (errors := errors_of(found)):
        raise CollectorError(where, f"Slurm says: {errors}", "See the log of slurmctld, slurmdbd or slurmrestd")
    return found


def errors_of(content: Mapping[str, Any]) -> str:
    """What Slurm says went wrong, in one line; '' if nothing did. That nothing was found is none."""
    errors = content.get("errors")
    messages = []
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict) and error.get("error_number") == _NOTHING_FOUND:
            continue
        words = [error.get(key) for key in ("description", "error", "source")] if isinstance(error, dict) else [error]
        messages.append(", ".join(dict.fromkeys(str(word) for word in words if word)))
    return "; ".join(messages)[:500]


def read_jobs(content: Mapping[str, Any]) -> Parsed[Job]:
    """Jobs of accounting or of the controller, whichever it is."""
    return _read(content, "jobs", lambda entry: _accounted(entry) if "time" in entry else _controlled(entry))


def read_nodes(content: Mapping[str, Any]) -> Parsed[Node]:
    return _read(content, "nodes", _node)


def number(value: object) -> int | None:
    """A plain number or {set, infinite, number}; None where it is not set, infinite, or one of Slurm's no-values."""
    if isinstance(value, dict):
        if value.get("infinite") or value.get("set") is False:
            return None
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) >= 1 << 63:
        return None
    return None if int(value) in _NO_VALUE else int(value)


def _read(content: Mapping[str, Any], key: str, one: Callable[[dict[str, Any]], T]) -> Parsed[T]:
    parsed: Parsed[T] = Parsed()
    entries = content.get(key)
    if not isinstance(entries, list):
        parsed.bad(0, f"no {key}", f"{key} is {type(entries).__name__}, not a list")
        return parsed
    for place, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            parsed.bad(place, "unreadable", f"{str(entry)[:40]!r} is no record")
            continue
        try:
            parsed.records.append(one(entry))
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as mistake:
            job = number(entry.get("job_id"))
            parsed.bad(place, "unreadable", str(mistake)[:200], "" if job is None else str(job))
    return parsed


def _accounted(entry: dict[str, Any]) -> Job:
    times, reported = _object(entry, "time"), _object(entry, "state")
    state = _state(reported.get("current"))
    submitted, ended = _at(times.get("submission")), _at(times.get("end")) if state in ENDINGS else None
    tres_reported = _object(entry, "tres")
    association = _object(entry, "association")
    wckey = entry.get("wckey")
    words: dict[Word, object] = {
        "account": entry.get("account") or association.get("account"),
        "user": entry.get("user") or association.get("user"),
        "qos": entry.get("qos"),
        "partition": entry.get("partition"),
        "wckey": wckey.get("wckey") if isinstance(wckey, dict) else wckey,
    }
    return Job(
        job_id=_job_id(entry),
        name=_name(entry, _object(entry, "array"), _object(entry, "het")),
        cluster=_text(entry.get("cluster") or association.get("cluster")),
        words={word: text for word, value in words.items() if (text := _text(value))},
        state=state,
        submitted_at=submitted,
        started_at=begun(submitted, _at(times.get("start")), ended) if state not in WAITING else None,
        ended_at=ended,
        nodes=_nodes(entry.get("nodes")),
        requested=gpus(tres_of_json(tres_reported.get("requested"))),
        held=gpus(tres_of_json(tres_reported.get("allocated"))),
        priority=number(entry.get("priority")),
        exit_code=_exit_code(entry.get("exit_code")),
        actor=_text(entry.get("kill_request_user")) if state == "CANCELLED" else "",
        reason=_reason(reported.get("reason")),
        limit_seconds=_minutes(times.get("limit")),
        suspended_seconds=number(times.get("suspended")) or 0,
        earlier=int(bool(number(entry.get("restart_cnt")))),
    )


def _controlled(entry: dict[str, Any]) -> Job:
    state = _state(entry.get("job_state"))
    # What ends a record of accounting ends no job here.
    state = {"RESIZING": "RUNNING", "REQUEUED": "PENDING"}.get(state, state)
    started = _at(entry.get("start_time")) if state in HOLDING or state in ENDINGS else None
    if state == "COMPLETING" and started is not None and (_at(entry.get("end_time")) or started) <= started:
        started = None  # a run that ends because it goes back into the queue: its start is reported no more
    since, earlier = _since(started, _at(entry.get("resize_time")), number(entry.get("restart_cnt")))
    nodes = _nodes(entry.get("nodes"))
    words: dict[Word, object] = {
        "account": entry.get("account"),
        "user": entry.get("user_name"),
        "qos": entry.get("qos"),
        "partition": entry.get("partition"),
        "wckey": entry.get("wckey"),
    }
    asked = _asked(entry, number(entry.get("node_count")) or len(nodes) or 1)
    held = gpus(tres_of_json(entry.get("tres_alloc_str")))
    placed = _placed(entry.get("gres_detail"), nodes)
    return Job(
        job_id=_job_id(entry),
        name=_name(
            entry,
            {"job_id": entry.get("array_job_id"), "task_id": entry.get("array_task_id")},
            {"job_id": entry.get("het_job_id"), "job_offset": entry.get("het_job_offset")},
        ),
        cluster=_text(entry.get("cluster")),
        words={word: text for word, value in words.items() if (text := _text(value))},
        state=state,
        submitted_at=_at(entry.get("submit_time")),
        started_at=since,
        ended_at=_at(entry.get("end_time")) if state in ENDINGS else None,
        nodes=nodes,
        requested=gpus(tres_of_json(entry.get("tres_req_str"))).typed(asked.types) or asked,
        held=held.typed(asked.types) if started else Gpus(),
        placed=placed,
        reason=_reason(entry.get("state_reason")),
        priority=number(entry.get("priority")),
        exit_code=_exit_code(entry.get("exit_code")),
        limit_seconds=_minutes(entry.get("time_limit")),
        run_started_at=started,
        earlier=earlier,
    )


def _since(started: datetime | None, resize: datetime | None, restarts: int | None) -> tuple[datetime | None, int]:
    """Since when a running job has what it has, and how many records of it may begin or end in that instant before."""
    if started is not None and resize is not None and resize > started:
        return resize, 1
    return started, bool(restarts) + (resize is not None and resize == started)


def _asked(entry: Mapping[str, Any], nodes: int) -> Gpus:
    """What was asked for, with its types: users write it, so what cannot be read tells nothing."""
    counts: dict[str, float] = {}
    try:
        for key, times in (("tres_per_node", nodes), ("tres_per_job", 1)):
            for found in gpu_gres(gres(_text(entry.get(key)))):
                name = f"gres/{found.name}:{found.type}" if found.type else f"gres/{found.name}"
                counts[name] = counts.get(name, 0) + found.count * times
    except ValueError:
        return Gpus()
    return gpus(counts)


def _node(entry: dict[str, Any]) -> Node:
    name = entry.get("name") or entry.get("hostname")
    if not isinstance(name, str) or not name:
        raise ValueError("node without a name")
    words: list[str] = []
    for value in (entry.get("state"), entry.get("state_flags")):
        words += [value] if isinstance(value, str) else [word for word in value or () if isinstance(word, str)]
    return Node(
        name=name,
        states=states_of(words),
        reason=_text(entry.get("reason")),
        reason_at=_at(entry.get("reason_changed_at")),
        gres=tuple(gpu_gres(gres(_text(entry.get("gres"))))),
    )


def _job_id(entry: Mapping[str, Any]) -> str:
    reported = number(entry.get("job_id"))
    if not reported or reported < 0:
        raise ValueError(f"job_id is {str(entry.get('job_id'))[:40]}")
    return str(reported)


def _name(entry: Mapping[str, Any], array: Mapping[str, Any], het: Mapping[str, Any]) -> str:
    task, whole_array = array.get("task_id"), number(array.get("job_id"))
    if whole_array and number(task) is not None:
        return f"{whole_array}_{number(task)}"
    if number(het.get("job_id")) and number(het.get("job_offset")) is not None:
        return f"{number(het.get('job_id'))}+{number(het.get('job_offset'))}"
    return _job_id(entry)


def _state(reported: object) -> str:
    """The one word that counts: the base state comes first in the list, but nodes that boot or clean up say more."""
    words = [reported] if isinstance(reported, str) else reported
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"state is {str(reported)[:60]}")
    known = [word.upper() for word in words]
    if "CONFIGURING" in known or "POWER_UP_NODE" in known:
        return "CONFIGURING"
    if "COMPLETING" in known:
        return "COMPLETING"
    state = next((word for word in known if word in STATES), "")
    if not state:
        raise ValueError(f"state {known[0][:40]!r} is not known")
    return state


def _placed(reported: object, nodes: tuple[str, ...]) -> dict[str, tuple[Gres, ...]]:
    """gres_detail has an entry for each node, in their order; older versions have an empty object instead."""
    if not isinstance(reported, list) or len(reported) != len(nodes):
        return {}
    placed = {}
    for node, text in zip(nodes, reported, strict=True):
        entries = tuple(gpu_gres(gres(_text(text))))
        if entries:
            placed[node] = entries
    return placed


def _nodes(reported: object) -> tuple[str, ...]:
    text = _text(reported)
    return () if text.lower() in NO_NODES else hosts(text)


def _at(value: object) -> datetime | None:
    seconds = number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and 0 < seconds < _LATEST else None


def _minutes(value: object) -> int | None:
    minutes = number(value)
    return None if minutes is None else minutes * 60


def _exit_code(reported: object) -> str:
    if isinstance(reported, dict):
        signal = reported.get("signal")
        signal_number = number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
        return f"{number(reported.get('return_code')) or 0}:{signal_number or 0}"
    code = number(reported)
    return f"{code >> 8}:{code & 0x7F}" if code else ""


def _object(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def _reason(value: object) -> str:
    reason = _text(value)
    return "" if reason == "None" else reason


def _text(value: object) -> str:
    """Half of a surrogate pair has no UTF-8 form, and is replaced."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
