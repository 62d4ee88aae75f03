"""How sure the numbers are: what could not be metered, priced or counted, and where to look."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from dashboards.data import Amounts, Overview
from dashboards.format import count, hours, percent

GOOD, NOTE = "gl-good", "gl-warn"


def quality_card(answer: Overview, total: Amounts) -> Component:
    """The data quality of a period; each line says its state in words, not by colour alone."""
    lines = [_coverage(total), _prices(total), _refused(answer), _quarantined(answer), _closed(answer)]
    return html.Section(
        [
            html.Div([html.H2("Data quality"), html.P("what the numbers do not know")], className="gl-card-head"),
            html.Ul(lines, className="gl-quality"),
            html.P(["The records behind these lines: ", html.Code("gpuledger doctor")], className="gl-note"),
        ],
        className="gl-card",
        id="quality",
    )


def _coverage(total: Amounts) -> Component:
    unmetered = total.hours["unmetered"]
    if not total.allocated:
        return _line(GOOD, "Nothing was held", "so there was nothing to meter")
    if not unmetered:
        return _line(GOOD, "Metered throughout", "telemetry covers every GPU-hour that was held")
    return _line(
        NOTE,
        f"Coverage {percent(total.metered, total.allocated)}",
        f"{hours(unmetered)} GPU-hours were held without trustworthy telemetry: charged, but neither used nor idle",
    )


def _prices(total: Amounts) -> Component:
    if not total.unpriced:
        return _line(GOOD, "Every GPU-hour has a price", "the rate card matched all of the capacity")
    return _line(
        NOTE,
        f"{hours(total.unpriced)} GPU-hours without a price",
        "no rate matched them; the costs here do not contain them",
    )


def _refused(answer: Overview) -> Component:
    if not answer.quality.refused:
        return _line(GOOD, "No claim refused", "no two holders claimed the same share")
    return _line(
        NOTE,
        count(answer.quality.refused_count, "claim") + " refused",
        "kept out of the books",
        [f"{_words(reason)}: {records:,}" for reason, records in answer.quality.refused],
    )


def _quarantined(answer: Overview) -> Component:
    if not answer.quality.quarantined:
        return _line(GOOD, "No record quarantined", "everything that came in could be read")
    return _line(
        NOTE,
        count(answer.quality.quarantined_count, "record") + " quarantined",
        "could not be read; of any time",
        [f"{fact}, {_words(reason)}: {records:,}" for fact, reason, records in answer.quality.quarantined],
    )


def _closed(answer: Overview) -> Component:
    period = answer.period
    assert period is not None
    missing = period.hours - period.hours_closed
    if missing <= 0:
        return _line(GOOD, "The period is closed", f"all {period.hours:,} hours")
    return _line(NOTE, f"{count(missing, 'hour')} not closed", "the numbers cover the others alone")


def _line(state: str, what: str, why: str, details: list[str] | None = None) -> Component:
    said = html.Span(
        [
            html.Strong(what),
            html.Small(why) if state == NOTE else None,
            html.Ul([html.Li(detail) for detail in details[:5]], className="gl-reasons") if details else None,
        ]
    )
    return html.Li([html.Span(className=f"gl-dot {state}"), said], title=why if state == GOOD else "")


def _words(reason: str) -> str:
    return reason.replace("_", " ")
