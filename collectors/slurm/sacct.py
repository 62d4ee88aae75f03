"""Text of `sacct --parsable2` -> jobs, for a Slurm that has no `sacct --json`, and for files.

The header names the columns, in any order; `--parsable` (a separator at each line's end) fits too. JobID and State
are needed. A column that users may write (JobName, WCKey, Comment and the like) could hold a separator or a line of
its own, and what it forges is a record like any other: a text with one is refused. Accounts are named by operators
and may hold a separator; as the last column an account is read whole.

Ask with --duplicates, else a requeued job's earlier runs are missing; --allocations leaves out steps, which are
skipped anyway.

Source: https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from collectors.errors import CollectorError
from collectors.slurm.hostlists import hosts
from collectors.slurm.jobs import STATES, Job, Site, Word, begun
from collectors.slurm.parsed import Parsed
from collectors.slurm.times import instants, most_likely, seconds
from collectors.slurm.tres import gpus, tres

FORMAT = (
    "JobID,JobIDRaw,Cluster,User,State,QOS,Submit,Start,End,Partition,Elapsed,Suspended,Timelimit,NodeList,AllocTRES,"
    "ReqTRES,Priority,ExitCode,Account"
)
"""Fields that every Slurm since 17.11 has; one that it does not know would make sacct refuse the lot. Names that
operators give are not neighbours: a separator in one shifts what cannot be shifted, and the record is refused."""
SAFE = frozenset(
    f"{FORMAT},JobIDRaw,ElapsedRaw,TimelimitRaw,Restarts,Eligible,Planned,PlannedCPU,Reserved,Reason,NNodes,NCPUS,NTasks,"
    "AllocCPUS,AllocNodes,ReqCPUS,ReqMem,ReqNodes,CPUTime,CPUTimeRAW,TotalCPU,UserCPU,SystemCPU,UID,GID,AssocID,DBIndex,"
    "DerivedExitCode,ConsumedEnergy,ConsumedEnergyRaw,QOSRAW,QOSREQ,Flags,FailedNode".lower().split(",")
)
"""Columns that Slurm or its operators fill in."""
NO_NODES = frozenset({"", "none assigned", "none", "unknown", "(null)"})
_JOB_ID = re.compile(r"[0-9]{1,12}(?:_(?:[0-9]{1,9}|\[[0-9,:%-]*(?:\.\.\.)?\])|\+[0-9]{1,9})?")
_CANCELLED = re.compile(r"(?P<state>[A-Z_]+)(?P<cut>\+?)(?: +by +(?P<actor>.+))?", re.IGNORECASE)
_WORDS: Mapping[Word, str] = {
    "account": "Account",
    "user": "User",
    "qos": "QOS",
    "partition": "Partition",
}


def read(text: str, site: Site, where: str = "sacct") -> Parsed[Job]:
    """Jobs in the order of the lines; a bad line is a problem with its number, and the others go on.

    Errors: CollectorError if there is no header, or one with a column that users may write.
    """
    parsed: Parsed[Job] = Parsed()
    names: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        if not names:
            names = _header(line, where)
            continue
        values = line.split("|", len(names) - 1 if names[-1] == "account" else -1)
        if len(values) != len(names):
            detail = f"{len(values)} columns, the header has {len(names)}"
            parsed.bad(number, "number of columns", detail, _shown_id(values[0]))
            continue
        row = {name: value.strip() for name, value in zip(names, values, strict=True)}
        if "." in row["jobid"]:
            parsed.skipped["step"] += 1
            continue
        try:
            parsed.records.append(_job(row, site))
        except ValueError as mistake:
            parsed.bad(number, "unreadable", str(mistake), _shown_id(row["jobid"]))
    return parsed


def _shown_id(text: str) -> str:
    return text if _JOB_ID.fullmatch(text) else ""


def _header(line: str, where: str) -> list[str]:
    names = [value.strip().lower() for value in line.split("|")]
    if not {"jobid", "state"} <= set(names):
        raise CollectorError(
            where, f"no header with JobID and State: {line[:80]!r}", "Use --parsable2, without --noheader"
        )
    if unsafe := [name for name in names if name not in SAFE and name]:
        raise CollectorError(
            where,
            f"column {', '.join(unsafe)[:80]}: users may write what is in it, and so forge records",
            f"Use sacct --json, or --format={FORMAT}",
        )
    return names


def _job(row: Mapping[str, str], site: Site) -> Job:
    shown = row["jobid"]
    if not _JOB_ID.fullmatch(shown):
        raise ValueError(f"{shown[:40]!r} is not a job id")
    raw = row.get("jobidraw", "")
    job_id = raw if raw.isascii() and raw.isdigit() else shown.split("_[")[0]
    state, actor = state_of(row["state"])
    suspended = seconds(row.get("suspended", "")) or 0
    elapsed = _elapsed(row)
    submitted, started, ended, guess = most_likely(
        instants(row.get("submit", ""), site.zone),
        instants(row.get("start", ""), site.zone),
        instants(row.get("end", ""), site.zone),
        None if elapsed is None else timedelta(seconds=elapsed + suspended),
    )
    nodes = row.get("nodelist", "")
    return Job(
        job_id=job_id,
        name=shown,
        cluster=row.get("cluster", ""),
        words={word: row[column.lower()] for word, column in _WORDS.items() if row.get(column.lower())},
        state=state,
        submitted_at=submitted,
        started_at=begun(submitted, started, ended),
        ended_at=ended,
        nodes=() if nodes.lower() in NO_NODES else hosts(nodes),
        requested=gpus(tres(row.get("reqtres", ""))),
        held=gpus(tres(row.get("alloctres", ""))),
        priority=whole(row.get("priority", "")),
        exit_code=row.get("exitcode", ""),
        actor=actor,
        limit_seconds=_limit(row),
        suspended_seconds=suspended,
        earlier=int(bool(whole(row.get("restarts", "")))),
        time_is_a_guess=guess,
    )


def state_of(text: str) -> tuple[str, str]:
    """The state's word, and who cancelled: `CANCELLED by 1234`. A column that was cut ends in `+`.

    Errors: ValueError if it is no state.
    """
    match = _CANCELLED.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is no state")
    word = match["state"].upper()
    if match["cut"] and word not in STATES:
        fitting = [state for state in STATES if state.startswith(word)]
        word = fitting[0] if len(fitting) == 1 else word
    if word not in STATES:
        raise ValueError(f"state {text[:40]!r} is not known")
    return word, (match["actor"] or "").strip()


def whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _elapsed(row: Mapping[str, str]) -> int | None:
    reported = whole(row.get("elapsedraw", ""))
    return seconds(row.get("elapsed", "")) if reported is None else reported


def _limit(row: Mapping[str, str]) -> int | None:
    """Seconds; TimelimitRaw is in minutes."""
    minutes = whole(row.get("timelimitraw", ""))
    return seconds(row.get("timelimit", "")) if minutes is None else minutes * 60
