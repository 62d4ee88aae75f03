"""GPUs in Slurm's texts: what a job has in all (TRES), and what it has on one node, by index (GRES).

    TRES   cpu=16,gres/gpu:h100=4,gres/gpu=4,mem=64G       totals over all nodes; a type repeats what the sum says
    GRES   gpu:h100:2(IDX:0-1,3)   gpu:(null):3(IDX:0-2)   gpu(IDX:0)   shard:4(4/10,0/10)   gpu:a100:8(S:0-1)
    JSON   [{"type": "gres", "name": "gpu:h100", "count": 4}]

Source: https://slurm.schedmd.com/gres.html, https://slurm.schedmd.com/tres.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

_COUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)([KMGTP]?)(?:[bB]?)")
_SCALES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_PROFILE = re.compile(r"(?:^|[_.:-])([1-9][0-9]?g\.[0-9]+gb(?:\+[a-z0-9.]+)*)$")
_ENTRY = re.compile(
    r"(?:gres[/:])?(?P<name>[A-Za-z_]+)(?::(?P<rest>[^()]*(?:\(null\)[^()]*)?))?(?:\((?P<note>[^()]*)\))?"
)
_INDICES = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*")
_SHARES = re.compile(r"[0-9]{1,6}/[0-9]{1,6}(?:,[0-9]{1,6}/[0-9]{1,6})*")
SHARED = ("shard", "mps")
"""Kinds of GRES that are parts of a GPU, as many as the site says."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of a job over all its nodes.

    whole: of gres/gpu; MIG instances are among them.   types: how many of which type, where the accounting tells.
    shared: how many shards or MPS percents, by kind.
    """

    whole: int = 0
    types: Mapping[str, int] = field(default_factory=dict)
    shared: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.whole or self.shared)

    @property
    def untyped(self) -> int:
        """How many of unknown type."""
        return max(0, self.whole - sum(self.types.values()))

    def typed(self, types: Mapping[str, int]) -> Gpus:
        """With these types, where its own are not reported and these are of all that it has."""
        return replace(self, types=types) if self.untyped and sum(types.values()) == self.whole else self

    @property
    def profiles(self) -> dict[str, int]:
        """How many of which MIG profile; '' is whole devices."""
        found: dict[str, int] = {}
        for kind, count in self.types.items():
            if name := profile(kind):
                found[name] = found.get(name, 0) + count
        rest = self.whole - sum(found.values())
        return {**({"": rest} if rest > 0 else {}), **dict(sorted(found.items()))}


@dataclass(frozen=True, slots=True)
class Gres:
    """One entry of a GRES text: so many of a kind on one node.

    indices: which of the node's, None where it does not say.   shares: index -> how many of how many, for shards.
    """

    name: str
    type: str = ""
    count: int = 1
    indices: tuple[int, ...] | None = None
    shares: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def profile(type_name: str) -> str:
    """The MIG profile at the end of a GRES type (`nvidia_a100_3g.20gb` -> `3g.20gb`), '' if it is a whole device."""
    found = _PROFILE.search(type_name.lower())
    return found[1] if found else ""


def tres(text: str) -> dict[str, float]:
    """Name -> count of `cpu=16,gres/gpu=4,mem=64G`; bytes for what has a K, M, G.

    Errors: ValueError if it is no such text.
    """
    counts: dict[str, float] = {}
    text = text.strip()
    if text in ("", "(null)", "N/A"):
        return counts
    for pair in text.split(","):
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ValueError(f"{pair[:60]!r} is not a TRES count")
        counts[name.strip()] = _count(value)
    return counts


def tres_of_json(entries: object) -> dict[str, float]:
    """The same of slurmrestd's list of {type, name, count}. Errors: ValueError."""
    counts: dict[str, float] = {}
    if entries is None:
        return counts
    if isinstance(entries, str):
        return tres(entries)
    if not isinstance(entries, list):
        raise ValueError(f"{str(entries)[:60]!r} is not a list of TRES")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise ValueError(f"{str(entry)[:60]!r} is not a TRES")
        name, count = entry.get("name"), entry.get("count")
        if isinstance(count, int | float) and not isinstance(count, bool) and 0 <= count < 1e15:
            counts[f"{entry['type']}/{name}" if name else entry["type"]] = count
    return counts


def gpus(counts: Mapping[str, float]) -> Gpus:
    """The GPUs among TRES counts. A sum and its types name the same GPUs: the sum counts, else the types together."""
    types: dict[str, int] = {}
    shared: dict[str, int] = {}
    whole = None
    for name, count in counts.items():
        kind, _, type_name = name.removeprefix("gres/").partition(":")
        if not name.startswith("gres/"):
            continue
        if kind == "gpu" and type_name:
            types[type_name] = types.get(type_name, 0) + int(count)
        elif kind == "gpu":
            whole = int(count)
        elif kind in SHARED and count:
            shared[kind] = max(shared.get(kind, 0), int(count))
    types = {name: count for name, count in types.items() if count}
    return Gpus(sum(types.values()) if whole is None else whole, types, shared)


def gres(text: str) -> list[Gres]:
    """Entries of a GRES text. Errors: ValueError."""
    text = text.strip()
    if text in ("", "(null)", "N/A", "none"):
        return []
    return [_entry(part) for part in _parts(text)]


def gpu_gres(entries: Iterable[Gres]) -> list[Gres]:
    return [entry for entry in entries if entry.name == "gpu" or entry.name in SHARED]


def _entry(text: str) -> Gres:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a GRES")
    type_name, count = _type_and_count(match["rest"])
    note = match["note"] or ""
    if note.startswith("IDX:"):
        indices = _indices(note.removeprefix("IDX:"))
        return Gres(match["name"], type_name, len(indices) if count is None else count, indices)
    if _SHARES.fullmatch(note):
        held = [tuple(map(int, share.split("/"))) for share in note.split(",")]
        shares = {index: (of, total) for index, (of, total) in enumerate(held) if of}
        return Gres(match["name"], type_name, 1 if count is None else count, tuple(shares), shares)
    return Gres(match["name"], type_name, 1 if count is None else count)


def _type_and_count(rest: str | None) -> tuple[str, int | None]:
    """Of what stands between name and parenthesis: `h100:2`, `2`, `(null):3`, `h100`; None: no count is reported."""
    parts = [part for part in (rest or "").split(":") if part]
    if len(parts) > 2:
        raise ValueError(f"{rest!r} is not a type and count")
    count = None
    if parts and _COUNT.fullmatch(parts[-1]):
        count = int(_count(parts.pop()))
    kind = parts[0] if parts else ""
    return ("" if kind in ("(null)", "no_consume") else kind), count


def _indices(text: str) -> tuple[int, ...]:
    if text in ("N/A", ""):
        return ()
    if not _INDICES.fullmatch(text):
        raise ValueError(f"{text[:60]!r} are not indices")
    found: dict[int, None] = {}
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(dict.fromkeys(range(int(first), int(last or first) + 1)))
    return tuple(found)


def _parts(text: str) -> list[str]:
    """Split at the commas that are not in parentheses."""
    parts, depth, begin = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    return [*parts, text[begin:]]


def _count(text: str) -> float:
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is no count")
    return float(match[1]) * _SCALES[match[2]]
