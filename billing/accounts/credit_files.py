"""Imports many credits from a table: CSV (optionally .gz) or JSON lines, one credit per row.

Columns: tenant, month, amount, reason; optionally id, currency, kind, project, author, evidence (JSON). Invalid rows go
to the quarantine with their reason and are listed; the others are imported.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing import audit
from billing.accounts.credits import Credit, CreditError, card_in_force, evidence_of, judged_credits, parse_amount
from warehouse.csv_cells import unescape_formula
from warehouse.errors import LedgerError
from warehouse.gzip_data import gzip_problem
from warehouse.json_text import parse_json
from warehouse.named_files import MOST_BYTES, read_named
from warehouse.store import Store
from warehouse.written_files import unknown_key

NEEDED = ("tenant", "month", "amount", "reason")
COLUMNS = (*NEEDED, "id", "currency", "kind", "project", "author", "evidence")


@dataclass(frozen=True)
class Refused:
    """A row (from 1, without the header) that is not a valid credit, or not now, and why."""

    row: int
    why: str
    raw: str


@dataclass(frozen=True)
class ImportReport:
    """read = added + known + refused."""

    read: int
    added: int
    known: int
    refused: tuple[Refused, ...]


def import_credits(store: Store, path: Path, author: str, now: datetime) -> ImportReport:
    """Adds the credits of a file; those that exist already change nothing."""
    try:
        content = read_named(path)
    except OSError as error:
        raise CreditError(str(path), f"cannot be read ({error.strerror})", "Give a file of credits") from error
    currency = card_in_force(store).currency
    rows: list[tuple[int, str]] = []
    credits: list[Credit] = []
    refused: list[Refused] = []
    for number, raw, fields in _rows(path, content):
        try:
            credits.append(_credit(fields, author, currency))
            rows.append((number, raw))
        except LedgerError as error:
            refused.append(Refused(number, str(error), raw))
    judged = judged_credits(store, credits)
    for (number, raw), outcome in zip(rows, judged.outcomes, strict=True):
        if isinstance(outcome, CreditError):
            refused.append(Refused(number, str(outcome), raw))
    refused.sort(key=lambda one: one.row)
    digest = hashlib.sha256(content).hexdigest()
    _quarantine(store, path, refused, int(digest[:15], 16), now)
    added = [one.id for one in judged.fresh]
    if added:
        inputs = {"file": path.name, "sha256": digest, "credits": added, "refused": len(refused)}
        with audit.around(store, now, author, "credits.import", digest[:12], "", inputs):
            judged.write(store, now)
    known = judged.outcomes.count(False)
    return ImportReport(len(added) + known + len(refused), len(added), known, tuple(refused))


def _credit(fields: Mapping[str, Any] | CreditError, author: str, currency: str) -> Credit:
    if isinstance(fields, CreditError):
        raise fields
    unknown = sorted(set(fields) - set(COLUMNS))
    if unknown:
        raise CreditError(unknown[0], unknown_key(unknown[0], COLUMNS))
    for name in NEEDED:
        if not str(fields.get(name) or "").strip():
            raise CreditError(name, "missing", f"A row has {', '.join(NEEDED)}")
    texts = {name: fields.get(name) or "" for name in COLUMNS if name != "evidence"}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise CreditError(name, f"found {value}", f'Write it in quotes, such as "{value}"')
    evidence = fields.get("evidence") or ""
    return Credit(
        tenant=texts["tenant"],
        month=texts["month"].strip(),
        amount=parse_amount(texts["amount"]),
        currency=texts["currency"] or currency,
        reason=texts["reason"],
        kind=texts["kind"] or "slo",
        project=texts["project"],
        author=texts["author"] or author,
        evidence=evidence if isinstance(evidence, dict) else evidence_of(str(evidence)),
        id=texts["id"],
    )


def _rows(path: Path, content: bytes) -> Iterator[tuple[int, str, Mapping[str, Any] | CreditError]]:
    """(number, as it came, its fields or what is wrong with it) of each row."""
    name = path.name.lower()
    try:
        if name.endswith(".gz"):
            content, name = _unpacked(content), name[:-3]
        text = content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CreditError(str(path), f"cannot be read ({error})", "Expected UTF-8 text, optionally gzipped") from error
    if name.endswith((".jsonl", ".ndjson", ".json")):
        yield from _json_rows(text)
    elif name.endswith(".csv"):
        yield from _csv_rows(path, text)
    else:
        raise CreditError(str(path), "neither CSV nor JSON lines", "Name it .csv, .csv.gz, .jsonl or .ndjson")


def _unpacked(content: bytes) -> bytes:
    """Errors: OSError, EOFError, zlib.error, also for what comes to more than a file may have."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(MOST_BYTES + 1)
    except gzip.BadGzipFile as error:
        raise OSError(gzip_problem(error, content)) from error
    if len(text) > MOST_BYTES:
        raise OSError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
    return text


def _json_rows(text: str) -> Iterator[tuple[int, str, Mapping[str, Any] | CreditError]]:
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            fields = parse_json(line, parse_float=Decimal)
        except ValueError as error:
            yield number, line, CreditError("row", f"not JSON ({error})", "Expected one object per line")
            continue
        yield (
            number,
            line,
            fields if isinstance(fields, dict) else CreditError("row", "not an object", "Expected an object"),
        )


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, str, Mapping[str, Any] | CreditError]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    header = next(reader, [])
    for name in header:
        if header.count(name) > 1:
            raise CreditError(str(path), f"column {name} appears twice", "Remove or rename one of them")
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise CreditError(str(path), f"has no column {missing[0]!r}", f"A table of credits has {', '.join(NEEDED)}")
    number = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise CreditError(f"{path}, row {number + 1}", f"not CSV ({error})", "Check its quotes") from error
        if not cells:
            continue
        number += 1
        raw = json.dumps(cells, ensure_ascii=False)
        if len(cells) != len(header):
            what = f"has {len(cells)} cells, the header {len(header)}"
            yield number, raw, CreditError("row", what, "Check its commas and quotes")
        else:
            yield number, raw, dict(zip(header, map(unescape_formula, cells), strict=True))


def _quarantine(store: Store, path: Path, refused: list[Refused], batch: int, now: datetime) -> None:
    import pyarrow as pa

    if not refused:
        return
    count = len(refused)
    columns = {
        "record_type": pa.array(["credits"] * count, pa.string()),
        "source": pa.array([str(path)] * count, pa.string()),
        "row": pa.array([one.row for one in refused], pa.uint64()),
        "reason": pa.array(["no credit"] * count, pa.string()),
        "detail": pa.array([one.why for one in refused], pa.string()),
        "raw": pa.array([one.raw for one in refused], pa.string()),
        "batch": pa.array([batch] * count, pa.uint64()),
        "quarantined_at": pa.array([now] * count, pa.timestamp("ms", "UTC")),
    }
    store.insert("quarantine", pa.table(columns))
