"""Parses the text of `scontrol show node`. Its content is written by operators, not by users.

The text of `scontrol show job` is not parsed: a job's name may contain lines that look like Slurm's own.

Source:  https://slurm.schedmd.com/scontrol.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.slurm.jobs import Site
from collectors.slurm.nodes import Node, states_of
from collectors.slurm.parsed import Parsed
from collectors.slurm.times import instants
from collectors.slurm.tres import gpu_gres, gres

_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z_:/]+)=(\S*)")
_FREE_TEXT = re.compile(r"(?:^|\s)(?:OS|Comment|Extra)=.*")
_REASON = re.compile(r"\s*Reason=(?P<text>.*?)(?:\s*\[(?P<who>[^@\[\]]*)@(?P<at>[^\[\]]*)\])?\s*")


def read_nodes(text: str, site: Site) -> Parsed[Node]:
    """The nodes. A node that appears twice, as a reason with a line of its own can cause, is ignored."""
    parsed: Parsed[Node] = Parsed()
    found: dict[str, list[tuple[int, Node]]] = {}
    for number, block in _blocks(text, "NodeName="):
        try:
            node = _node(block, site)
        except ValueError as mistake:
            parsed.bad(number, "unreadable", f"{block[0][:40]}: {mistake}")
        else:
            found.setdefault(node.name, []).append((number, node))
    for name, same in found.items():
        if len(same) == 1:
            parsed.records.append(same[0][1])
        for number, _ in same[1:]:
            parsed.bad(number, "named twice", f"node {name[:40]} appears twice: see its reason")
    return parsed


def _blocks(text: str, first: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of their first line; each begins with a line that starts with `first`."""
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
    """Key -> value; the first occurrence of a key counts."""
    found: dict[str, str] = {}
    for line in block:
        if line.lstrip().startswith("Reason="):
            continue
        for key, value in _PAIR.findall(_FREE_TEXT.sub("", line)):
            found.setdefault(key, value)
    return found


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
