"""How reliable the numbers are: what could not be metered, priced or counted, and where to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dash import html
from dash.development.base_component import Component

from dashboards import parts
from dashboards.amounts import Amounts
from dashboards.filters import Filters
from dashboards.format import hours, percent, unbroken
from dashboards.languages import Language
from warehouse.store import Store

GOOD, NOTE = "gl-good", "gl-warn"


@dataclass(frozen=True)
class Quality:
    """What the books could not count, by reason: (what, reason, records)."""

    refused: Sequence[tuple[str, int]] = ()
    quarantined: Sequence[tuple[str, str, int]] = ()

    @property
    def refused_count(self) -> int:
        return sum(count for _, count in self.refused)

    @property
    def quarantined_count(self) -> int:
        return sum(count for _, _, count in self.quarantined)


def quality_of(store: Store, filters: Filters) -> Quality:
    refused = filters.rows(store, __file__, "refused_by_reason")
    quarantined = filters.rows_now(store, __file__, "quarantined_by_reason")
    return Quality(
        refused=[(row["reason"], row["records"]) for row in refused],
        quarantined=[(row["record_type"], row["reason"], row["records"]) for row in quarantined],
    )


def quality_card(filters: Filters, quality: Quality, total: Amounts, words: Language) -> Component:
    """The data quality of a period; each line says its state in words, not by colour alone."""
    lines = [
        _coverage(total, words),
        _prices(total, words),
        _refused(quality, words),
        _quarantined(quality, words),
        _closed(filters, words),
    ]
    return parts.card(
        words("quality.title"),
        words("quality.is"),
        html.Ul(lines, className="gl-quality"),
        html.P([words("quality.more"), " ", html.Code("gpuledger doctor")], className="gl-note"),
        id="quality",
    )


def _coverage(total: Amounts, words: Language) -> Component:
    unmetered = total.hours["unmetered"]
    if not total.allocated:
        return _line(GOOD, words("quality.nothing_held"), words("quality.nothing_held_why"))
    if not unmetered:
        return _line(GOOD, words("quality.metered"), words("quality.metered_why"))
    share = percent(total.coverage)
    return _line(NOTE, words("quality.coverage", share=share), words("quality.coverage_why", n=hours(unmetered)))


def _prices(total: Amounts, words: Language) -> Component:
    if not total.unpriced:
        return _line(GOOD, words("quality.priced"), words("quality.priced_why"))
    return _line(NOTE, words("quality.unpriced", n=hours(total.unpriced)), words("quality.unpriced_why"))


def _refused(quality: Quality, words: Language) -> Component:
    if not quality.refused:
        return _line(GOOD, words("quality.none_refused"), words("quality.none_refused_why"))
    return _line(
        NOTE,
        words.count("quality.refused", quality.refused_count),
        words("quality.refused_why"),
        [
            f"{words.of(f'refusal.{reason}', _words(reason))}{words('part.colon')}{records:,}"
            for reason, records in quality.refused
        ],
    )


def _quarantined(quality: Quality, words: Language) -> Component:
    if not quality.quarantined:
        return _line(GOOD, words("quality.none_quarantined"), words("quality.none_quarantined_why"))
    return _line(
        NOTE,
        words.count("quality.quarantined", quality.quarantined_count),
        words("quality.quarantined_why"),
        [
            words("quality.comma").join([words.of(f"records.{fact}", fact), _mistake(reason, words)])
            + f"{words('part.colon')}{records:,}"
            for fact, reason, records in quality.quarantined
        ],
    )


def _mistake(reason: str, words: Language) -> str:
    """Why a row was quarantined; some reasons end in the name of a column."""
    if known := words.of(f"quarantine.{reason}", ""):
        return known
    for kind in ("missing", "unknown", "out_of_range"):
        if reason.startswith(f"{kind}_"):
            return words(f"quarantine.{kind}", name=reason.removeprefix(f"{kind}_"))
    return _words(reason)


def _closed(filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    period = filters.period
    now = datetime.now(UTC)
    missing = period.hours_missing(now)
    if missing <= 0:
        closed = "quality.closed" if period.hours_over(now) == period.hours else "quality.closed_so_far"
        hours = period.hours_closed + period.hours_empty
        return _line(GOOD, words(closed), words("quality.closed_why", n=f"{hours:,}"))
    return _line(NOTE, words.count("quality.not_closed", missing), words("quality.not_closed_why"))


def _line(state: str, what: str, why: str, details: list[str] | None = None) -> Component:
    said = html.Span(
        [
            html.Strong(unbroken(what)),
            html.Small(unbroken(why)) if state == NOTE else None,
            html.Ul([html.Li(unbroken(detail)) for detail in details[:5]], className="gl-reasons") if details else None,
        ]
    )
    return html.Li([html.Span(className=f"gl-dot {state}"), said], title=why if state == GOOD else "")


def _words(reason: str) -> str:
    return reason.replace("_", " ")
