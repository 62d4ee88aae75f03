"""Reads Slurm's output from a file, once, without a position."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from collectors.errors import CollectorError
from collectors.readings import Collected
from collectors.slurm import rest, sacct, scontrol
from collectors.slurm.inventory import Inventory, shares_of
from collectors.slurm.jobs import (
    Job,
    Site,
)
from collectors.slurm.nodes import Node, NodeInputs, changes
from collectors.slurm.parsed import Parsed, Problem
from collectors.slurm.rows import lifecycle_rows, placement_rows, problem_rows


def read_file(path: Path, site: Site, inventory: Inventory, now: datetime) -> tuple[Collected, list[Problem]]:
    """The content of a file: text of sacct or of scontrol show node, or JSON of sacct, squeue, sinfo or slurmrestd."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as mistake:
        raise CollectorError(str(path), f"cannot be read: {mistake}", "Give a file of sacct's or squeue's") from None
    return read_text(text, site, inventory, now, str(path))


def read_text(
    text: str, site: Site, inventory: Inventory, now: datetime, where: str
) -> tuple[Collected, list[Problem]]:
    """Like `read_file`, for text; `where` names it in errors."""
    site = replace(site, shares_per_gpu={**shares_of(inventory), **site.shares_per_gpu})
    first = text.lstrip()[:4096]
    if not first:
        raise CollectorError(where, "empty: there is nothing to read", "Did the command that wrote it fail?")
    if first.startswith("{"):
        content = rest.document(text, where)
        if not {"nodes", "jobs"} & content.keys():
            raise CollectorError(
                where,
                f"JSON without jobs or nodes: it has {', '.join(content)[:80]}",
                "Use sacct, squeue or slurmrestd",
            )
        if "jobs" not in content:
            return _nodes_of_file(rest.read_nodes(content), site, inventory, now)
        return _jobs_of_file(rest.read_jobs(content), site, inventory, now)
    if first.startswith("JobId="):
        raise CollectorError(
            where, "text of scontrol: a job's name can forge any line of it", "Use squeue --json, or sacct --json"
        )
    if first.startswith("NodeName="):
        return _nodes_of_file(scontrol.read_nodes(text, site), site, inventory, now)
    return _jobs_of_file(sacct.read(text, site, where), site, inventory, now)


def _jobs_of_file(
    parsed: Parsed[Job], site: Site, inventory: Inventory, now: datetime
) -> tuple[Collected, list[Problem]]:
    collected = lifecycle_rows(parsed.records, site, now)
    collected += placement_rows(parsed.records, site, inventory, now)
    return _counted(parsed, collected, site, now)


def _nodes_of_file(
    parsed: Parsed[Node], site: Site, inventory: Inventory, now: datetime
) -> tuple[Collected, list[Problem]]:
    return _counted(parsed, changes(parsed.records, NodeInputs(now), site, inventory)[0], site, now)


def _counted(
    parsed: Parsed[Job] | Parsed[Node], collected: Collected, site: Site, now: datetime
) -> tuple[Collected, list[Problem]]:
    collected.dropped.update(parsed.skipped)
    for problem in parsed.problems:
        collected.dropped[problem.reason] += 1
    collected += problem_rows("file", parsed.problems, site, now)
    return collected, parsed.problems
