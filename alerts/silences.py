"""Silences: who silenced which alerts until when. Rows; the newest revision of an id counts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from alerts.errors import AlertError
from alerts.matchers import Match, fits_everything, literal
from alerts.routing import ACKNOWLEDGED, Silence
from billing import audit
from warehouse.instants import to_the_minute
from warehouse.store import Store, read_sql

_MATCH: TypeAdapter[Mapping[str, tuple[str, ...]]] = TypeAdapter(Match)
LONGEST = timedelta(days=366)
ACKNOWLEDGED_FOR = timedelta(hours=4)
"""So long nobody is reminded of an alert that somebody acknowledged: a shift's half, so that the next asks again."""
CHANGING = "silences"
"""What has one turn at a time, on all servers: to read a silence and to write what follows from it."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def add_silence(
    store: Store,
    matchers: Mapping[str, Any],
    ends_at: datetime,
    author: str,
    reason: str,
    now: datetime,
    starts_at: datetime | None = None,
) -> Silence:
    """Writes a silence and answers it. Errors: AlertError for one about everything, without an author or a reason,
    without an end in the future or with one beyond a year."""
    try:
        match = _MATCH.validate_python(matchers)
    except ValidationError as error:
        raise AlertError("silence: matchers", error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    starts_at = starts_at or now
    if fits_everything(match):
        what = "would silence everything" if match else "an empty matcher would silence everything"
        raise AlertError(
            "silence: matchers", what, "Name labels, like alertname=long-queue, or node=?* for all that have one"
        )
    if not author.strip():
        raise AlertError("silence: author", "is missing", "Say who silences the alerts")
    if not reason.strip():
        raise AlertError("silence: reason", "none is given", "Say why")
    if ends_at <= max(starts_at, now):
        raise AlertError("silence: end", f"{ends_at:%F %T}Z is not after its start and now", "Give a later end")
    if ends_at > now + LONGEST:
        raise AlertError(
            "silence: end",
            f"{ends_at:%F}, more than {LONGEST.days} days from now",
            "To exclude something permanently, use a rule's exclude",
        )
    silence = Silence(uuid.uuid4().hex[:12], match, starts_at, ends_at, author, reason)
    audit.record(store, now, author, "silence.add", silence.id, reason, {"matchers": match, "ends_at": ends_at})
    _write(store, silence, 1, now)
    return silence


def acknowledge(
    store: Store,
    fingerprint: str,
    active_at: datetime,
    labels: Mapping[str, str],
    author: str,
    reason: str,
    now: datetime,
    lasts: timedelta = ACKNOWLEDGED_FOR,
) -> tuple[Silence, bool]:
    """Acknowledges an alert, active since `active_at`: nobody is reminded of this occurrence for a while, but those who
    were notified learn of its end. Answers the acknowledgement in force and whether it is new: the first one counts
    until it ends, and another writes nothing. Errors: AlertError without an author, or for longer than a silence
    lasts; TurnLostError if others may have acknowledged it meanwhile."""
    if not author.strip():
        raise AlertError("acknowledgement: author", "is missing", "Say who acknowledges the alert")
    if not timedelta(0) < lasts <= LONGEST:
        raise AlertError("acknowledgement", f"lasts {lasts}", f"Give more than nothing and at most {LONGEST.days} days")
    matchers = {name: (literal(text),) for name, text in labels.items() if name not in ("severity", "owner")}
    silence = Silence(f"{ACKNOWLEDGED}{fingerprint}", matchers, now, now + lasts, author, reason)
    with store.turn(CHANGING) as held:
        before = [row for row in _rows(store, _NEVER) if row["id"] == silence.id]
        for first in map(_silence, before):
            # It begins when somebody asked; by another server's clock, or while we waited, that may be later.
            if first.acknowledges(fingerprint, active_at, max(now, first.starts_at)):
                return first, False
        about = {"rule": labels.get("alertname", ""), "ends_at": silence.ends_at}
        held.check()
        audit.record(store, now, author, "alert.acknowledge", fingerprint, reason, about)
        held.check()
        _write(store, silence, max((row["revision"] for row in before), default=0) + 1, now)
    return silence, True


def end_silence(store: Store, identifier: str, author: str, now: datetime) -> Silence:
    """Ends a silence now. Errors: AlertError if it is neither active nor scheduled; TurnLostError if others may have
    changed it meanwhile."""
    with store.turn(CHANGING) as held:
        for row in _rows(store, now):
            if row["id"] == identifier:
                silence = _silence(row)
                ended = Silence(
                    silence.id, silence.matchers, min(silence.starts_at, now), now, silence.author, silence.reason
                )
                held.check()
                audit.record(store, now, author, "silence.end", identifier)
                held.check()
                _write(store, ended, row["revision"] + 1, now)
                return ended
    raise AlertError(f"silence {identifier}", "is not active", "gpuledger alerts silence list")


def silences(store: Store, now: datetime, past: bool = False) -> list[Silence]:
    """Active and scheduled silences; with `past`, all."""
    found = map(_silence, _rows(store, _NEVER if past else to_the_minute(now)))
    return [one for one in found if past or one.ends_at > now]


def _rows(store: Store, after: datetime) -> list[dict[str, Any]]:
    return store.rows(read_sql(__file__, "current_silences"), {"after": after})


def _silence(row: Mapping[str, Any]) -> Silence:
    matchers = {label: tuple(globs) for label, globs in json.loads(row["matchers"]).items()}
    return Silence(row["id"], matchers, row["starts_at"], row["ends_at"], row["author"], row["reason"])


def _write(store: Store, silence: Silence, revision: int, now: datetime) -> None:
    matchers = json.dumps(silence.matchers, ensure_ascii=False)
    row = {**vars(silence), "matchers": matchers, "revision": revision, "now": now}
    store.command(read_sql(__file__, "write_silence"), row)
