"""Parses OpenCost's filters, limited to equality: `namespace:"a","b"+label[tenant]:"x"`, or filterPods=a,b.

Others (`!:`, `~:`, `|`, brackets) are refused, because a filter that is half understood gives a wrong sum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from billing.opencost.words import LABELS, PROPERTIES, QueryError

_TERM = re.compile(r'\s*([A-Za-z]+)(?:\[([^\]"]+)\])?\s*:\s*("[^"]*"(?:\s*,\s*"[^"]*")*)\s*')
_NEXT = 'Only equality is supported: namespace:"a","b"+label[tenant]:"x"'
V1 = {
    "filterclusters": "cluster", "filternodes": "node", "filternamespaces": "namespace", "filterpods": "pod",
    "filterlabels": "label",
}  # fmt: skip


def read_filters(given: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """By dimension the values that match, and the names of the parameters that were read.

    given:  parameters, names in lower case.   Errors: QueryError for anything but equality, each dimension once.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    read = {name for name in given if name == "filter" or name.startswith("filter")}
    for name in sorted(read):
        if not given[name]:
            continue
        terms = _terms(given[name]) if name == "filter" else _plain(name, given[name])
        for dimension, values in terms:
            if dimension in wanted:
                raise QueryError(name, f"{dimension} is filtered twice", f'Name its values once: {dimension}:"a","b"')
            wanted[dimension] = values
    return wanted, read


def _terms(text: str) -> list[tuple[str, tuple[str, ...]]]:
    terms = []
    at = 0
    while True:
        match = _TERM.match(text, at)
        if match is None:
            raise QueryError("filter", f"not understood from {text[at : at + 40]!r} on", _NEXT)
        values = tuple(re.findall(r'"([^"]*)"', match[3]))
        terms.append((_dimension("filter", match[1], match[2]), values))
        at = match.end()
        if at == len(text):
            return terms
        if text[at] != "+":
            raise QueryError("filter", f"not understood from {text[at : at + 40]!r} on", _NEXT)
        at += 1


def _plain(name: str, text: str) -> list[tuple[str, tuple[str, ...]]]:
    if name not in V1:
        raise QueryError(name, "is not supported", _NEXT)
    values = [value.strip() for value in text.split(",")]
    if any("*" in value for value in values):
        raise QueryError(name, "wildcards are not supported", _NEXT)
    if V1[name] != "label":
        return [(V1[name], tuple(values))]
    by_label: dict[str, list[str]] = {}
    for value in values:
        label, colon, wanted = value.partition(":")
        if not colon:
            raise QueryError(name, f"{value!r} is not a label", "Write it like tenant:physics")
        by_label.setdefault(_dimension(name, "label", label.strip()), []).append(wanted.strip())
    return [(label, tuple(wanted)) for label, wanted in by_label.items()]


def _dimension(name: str, field: str, label: str | None) -> str:
    if field.lower() == "label" and label is not None:
        if label.lower() in LABELS:
            return label.lower()
        raise QueryError(name, f"no label {label!r} here", f"Labels are {', '.join(LABELS)}")
    if label is None and field.lower() in PROPERTIES:
        return field.lower()
    raise QueryError(name, f"cannot filter by {field!r}", f"Choose from {', '.join(PROPERTIES)}, label[tenant], ...")
