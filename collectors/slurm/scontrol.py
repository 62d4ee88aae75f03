"""Text of `scontrol show job -d` and `scontrol show node` -> jobs with the indices of their GPUs, and nodes.

What a user can write (JobName, Command, Comment and the like) fills the rest of its line and is not read, so that a
job named `x JobState=COMPLETED` is none. In one line (`-o`) that cannot be told apart: leave it out.

Traps:   EndTime of a running job and StartTime of a waiting one are plans. `Nodes=gpu[01-02] ... GRES=gpu:2(IDX:0-1)`
         is said once for nodes that have the same; old versions write GRES_IDX=gpu(IDX:0).
Source:  https://slurm.schedmd.com/scontrol.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from collectors.slurm.hostlists import hosts
from collectors.slurm.jobs import ENDINGS, HOLDING, Job, Site, Word
from collectors.slurm.nodes import Node, states_of
from collectors.slurm.parsed import Parsed
from collectors.slurm.sacct import NO_NODES, state_of, whole
from collectors.slurm.times import instants, most_likely, seconds
from collectors.slurm.tres import Gpus, Gres, gpu_gres, gpus, gres, tres

_FREE_TEXT = re.compile(
    r"(?:^|\s)(?:JobName|Command|SubmitLine|WorkDir|StdErr|StdIn|StdOut|Comment|AdminComment|SystemComment|Extra"
    r"|MailUser|OS|ContainerID|Container)=.*"
)
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z_:/]+)=(\S*)")
_REASON = re.compile(r"\s*Reason=(?P<text>.*?)(?:\s*\[(?P<who>[^@\[\]]*)@(?P<at>[^\[\]]*)\])?\s*")
_WORDS: Mapping[Word, str] = {"account": "Account", "qos": "QOS", "partition": "Partition", "wckey": "WCKey"}


def read_jobs(text: str, site: Site) -> Parsed[Job]:
    parsed: Parsed[Job] = Parsed()
    for number, block in _blocks(text, "JobId="):
        if len(block) == 1 and " JobState=" in block[0]:
            parsed.bad(number, "one line", "scontrol -o cannot be read safely, leave -o out")
            continue
        try:
            parsed.records.append(_job(block, site))
        except ValueError as mistake:
            parsed.bad(number, "unreadable", f"{block[0][:40]}: {mistake}")
    return parsed


def read_nodes(text: str, site: Site) -> Parsed[Node]:
    parsed: Parsed[Node] = Parsed()
    for number, block in _blocks(text, "NodeName="):
        try:
            parsed.records.append(_node(block, site))
        except ValueError as mistake:
            parsed.bad(number, "unreadable", f"{block[0][:40]}: {mistake}")
    return parsed


def resized(started: datetime | None, resize: datetime | None, restarts: int | None) -> tuple[datetime | None, bool]:
    """Since when a running job has what it has, and whether an earlier record of it ends then."""
    if started is not None and resize is not None and resize > started:
        return resize, True
    return started, bool(restarts)


def live(state: str) -> str:
    """The controller's word for a job that it still has: what ends a record in accounting ends no job here."""
    return {"RESIZING": "RUNNING", "REQUEUED": "PENDING"}.get(state, state)


def _blocks(text: str, first: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of their first line; each begins with a line that begins with `first`."""
    begin, block = 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(first):
            if block:
                yield begin, block
            begin, block = number, [line.rstrip("\r")]
        elif block and line.strip():
            block.append(line.rstrip("\r"))
    if block:
        yield begin, block


def _pairs(block: list[str]) -> dict[str, str]:
    """Key -> value; the first of a key counts, and lines about single nodes are apart."""
    found: dict[str, str] = {}
    for line in block:
        if line.lstrip().startswith(("Nodes=", "Reason=")):
            continue
        for key, value in _PAIR.findall(_FREE_TEXT.sub("", line)):
            found.setdefault(key, value)
    return found


def _job(block: list[str], site: Site) -> Job:
    pairs = _pairs(block)
    if not pairs.get("JobId", "").isdigit():
        raise ValueError("no job id")
    state = live(state_of(pairs.get("JobState", ""))[0])
    ended = instants(pairs.get("EndTime", ""), site.zone) if state in ENDINGS else ()
    started = instants(pairs.get("StartTime", ""), site.zone) if state in ENDINGS or state in HOLDING else ()
    suspended = _suspended(pairs)
    took = seconds(pairs.get("RunTime", ""))
    submitted_at, started_at, ended_at, guess = most_likely(
        instants(pairs.get("SubmitTime", ""), site.zone),
        started,
        ended,
        None if took is None or suspended else timedelta(seconds=took),
    )
    resize = next(iter(instants(pairs.get("ResizeTime", ""), site.zone)), None)
    since, restarted = resized(started_at, resize, whole(pairs.get("Restarts", "")))
    nodes = pairs.get("NodeList", "")
    return Job(
        job_id=pairs["JobId"],
        name=_name(pairs),
        words=_words(pairs),
        state=state,
        submitted_at=submitted_at,
        started_at=since,
        ended_at=ended_at,
        nodes=() if nodes.lower() in NO_NODES else hosts(nodes),
        requested=_requested(pairs),
        held=gpus(tres(pairs.get("AllocTRES", pairs.get("TRES", "")))) if started_at else gpus({}),
        placed=_placed(block),
        priority=whole(pairs.get("Priority", "")),
        exit_code=pairs.get("ExitCode", ""),
        limit_seconds=seconds(pairs.get("TimeLimit", "")),
        restarted=restarted,
        time_is_a_guess=guess,
    )


def _requested(pairs: Mapping[str, str]) -> Gpus:
    """TRES has no GPUs where the site does not account for them; what was asked for each node is there in any case."""
    told = gpus(tres(pairs.get("ReqTRES", pairs.get("TRES", ""))))
    nodes = whole(pairs.get("NumNodes", "").split("-")[0]) or 1
    if told:
        return told
    asked: dict[str, float] = {}
    for entry in gpu_gres(gres(pairs.get("TresPerNode", ""))):
        name = f"gres/{entry.name}:{entry.type}" if entry.type else f"gres/{entry.name}"
        asked[name] = asked.get(name, 0) + entry.count * nodes
    return gpus(asked)


def _name(pairs: Mapping[str, str]) -> str:
    if "ArrayJobId" in pairs and "ArrayTaskId" in pairs:
        return f"{pairs['ArrayJobId']}_{pairs['ArrayTaskId']}"
    if "HetJobId" in pairs and "HetJobOffset" in pairs:
        return f"{pairs['HetJobId']}+{pairs['HetJobOffset']}"
    return pairs["JobId"]


def _words(pairs: Mapping[str, str]) -> dict[Word, str]:
    words: dict[Word, str] = {
        word: pairs[key] for word, key in _WORDS.items() if pairs.get(key) not in (None, "", "(null)")
    }
    if user := pairs.get("UserId", "").split("(")[0]:
        words["user"] = user
    return words


def _suspended(pairs: Mapping[str, str]) -> bool:
    return pairs.get("SuspendTime", "None") not in ("None", "")


def _placed(block: list[str]) -> dict[str, tuple[Gres, ...]]:
    placed: dict[str, tuple[Gres, ...]] = {}
    for line in block:
        if not line.lstrip().startswith("Nodes="):
            continue
        pairs: dict[str, str] = dict(_PAIR.findall(line))
        entries = tuple(gpu_gres(gres(pairs.get("GRES") or pairs.get("GRES_IDX", ""))))
        if entries:
            for node in hosts(pairs["Nodes"]):
                placed[node] = (*placed.get(node, ()), *entries)
    return placed


def _node(block: list[str], site: Site) -> Node:
    pairs = _pairs(block)
    reason, at = "", None
    for line in block:
        if line.lstrip().startswith("Reason=") and (match := _REASON.fullmatch(line)):
            reason = match["text"] if match["text"] != "(null)" else ""
            at = next(iter(instants(match["at"] or "", site.zone)), None)
    return Node(
        name=pairs["NodeName"],
        states=states_of([pairs.get("State", "")]),
        reason=reason,
        reason_at=at,
        gres=tuple(gpu_gres(gres(pairs.get("Gres", "")))),
    )
