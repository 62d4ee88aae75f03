"""Interference in the last days of the period: victims and cost, aggressors, and each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts.interference.episodes import Episode, episodes
from alerts.interference.ranking import Aggressor, Victim, aggressors, victims_of
from dashboards import exports, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, percent, unbroken
from dashboards.languages import Language
from dashboards.parts import Figure
from warehouse.store import Store, read_sql

LOOKED = timedelta(days=7)
"""At the period's end: it is ranked anew while somebody waits for it."""
MOST = 500
"""Episodes shown."""


def interference_part(store: Store, filters: Filters, words: Language) -> Component:
    """All of it. A workload's tenant and cluster are filtered by; who disturbed it may be anybody's."""
    if filters.period is None:
        raise filters.nothing_closed()
    until = min(filters.period.end, filters.months[-1].last + timedelta(hours=1))
    span = {"since": max(filters.period.start, until - LOOKED), "until": until}
    (measured,) = filters.rows(store, __file__, "measured", **span)
    said = _looked(**span, filters=filters, words=words)
    if not measured["hours"]:
        return parts.card(words("slo.interference"), said, states.nothing_here(words("slo.not_measured")))
    found = _found(store, filters, measured["version"], **span)
    shown = [one for one in found.episodes if _is_chosen(one.tenant, one.cluster, filters)]
    hurt = [one for one in found.victims if _is_chosen(one.tenant, one.cluster, filters)]
    theirs = {(one.cluster, one.identity) for one in hurt}
    named = [one for one in found.aggressors if (one.cluster, one.victim) in theirs]
    of = dict(found.known["newest"])
    return html.Div(
        [
            html.Div(
                [html.H2(words("slo.interference")), html.P(unbroken(said), className="gl-scope")],
                className="gl-section",
            ),
            _headline(shown, hurt, named, found.known, words),
            parts.split(_victims_card(hurt, of, filters, words), _aggressors_card(named, of, filters, words),
                        class_name="gl-even"),
            _episodes_card(shown, filters, words),
        ],
        className="gl-page",
    )  # fmt: skip


def _looked(since: datetime, until: datetime, filters: Filters, words: Language) -> str:
    assert filters.period is not None
    span = {"start": _moment(since, filters, words), "end": _moment(until, filters, words)}
    if since == filters.period.start:
        return words("slo.looked", **span)
    return words("slo.looked_last", days=LOOKED.days, **span)


@dataclass(frozen=True)
class Found:
    """All that a span has, whatever is chosen. aggressors: named and candidates.   known: the row of known.sql."""

    episodes: Sequence[Episode]
    victims: Sequence[Victim]
    aggressors: Sequence[Aggressor]
    known: Mapping[str, Any]


def _found(store: Store, filters: Filters, version: int, since: datetime, until: datetime) -> Found:
    """version: of its hours. While that is the same, only rows of its months that came late can change the answer."""

    def ask() -> Found:
        found = episodes(store, since, until)
        hurt = victims_of(found)
        beside = aggressors(store, since, until, of=hurt) if hurt else []
        (known,) = store.rows(read_sql(__file__, "known"), {"since": since, "until": until})
        return Found(found, hurt, [one for one in beside if one.verdict != "none"], known)

    key = ("interference", since, until, version)
    answer: Found = filters.data_version.cached(store, key, "interference_samples, allocations", ask, until)
    return answer


def _is_chosen(tenant: str, cluster: str, filters: Filters) -> bool:
    chosen = filters.address.chosen
    return all(
        not chosen.get(name) or value in chosen[name] for name, value in (("tenant", tenant), ("cluster", cluster))
    )


def _moment(at: datetime, filters: Filters, words: Language) -> str:
    return words.moment(filters.local(at))


def _headline(
    found: Sequence[Episode],
    hurt: Sequence[Victim],
    named: Sequence[Aggressor],
    known: Mapping[str, Any],
    words: Language,
) -> Component:
    lost = [one.lost_gpu_seconds for one in found if one.lost_gpu_seconds is not None]
    worst = max((one.max_slowdown for one in hurt if one.max_slowdown is not None), default=None)
    unproven = sum(one.verdict == "candidate" for one in named)
    return parts.headline(
        [
            Figure(words("slo.episodes"), f"{len(found):,}", "",
                   words.count("slo.open", sum(one.ended_at is None for one in found))),
            Figure(words("slo.victims"), f"{len(hurt):,}", "", words("slo.victims_short")),
            Figure(words("slo.lost"), f"{sum(lost) / 3600:,.3g}" if lost else UNKNOWN if found else "0",
                   words("unit.gpu_hours"), words("slo.lost_is")),
            Figure(words("slo.worst"), UNKNOWN if worst is None else fixed(worst, 2),
                   "" if worst is None else "×", words("slo.worst_is")),
            Figure(words("slo.aggressors"), f"{len(named) - unproven:,}", "", words.count("slo.candidates", unproven)),
            Figure(words("slo.known"), percent(known["known"], known["windows"]), "", words("slo.known_is")),
        ]
    )  # fmt: skip


def _victims_card(hurt: Sequence[Victim], of: Mapping[str, str], filters: Filters, words: Language) -> Component:
    columns = [
        grids.link("name", words("slo.victim"), minimum=110),
        grids.text("tenant", words("filter.tenant"), minimum=84, flex=0.8),
        grids.number("episodes", words("slo.episodes"), shape=",d"),
        grids.number("slowdown", words("slo.slowdown"), words("slo.slowdown_is"), ",.2f", after=" ×"),
        grids.sorted_by(
            grids.number("lost", words("slo.lost_hours"), words("slo.lost_is"), ",.3f", unit=words("unit.gpu_hours"))
        ),
    ]
    rows = [
        {
            "name": one.identity,
            "href": _to_workload(of.get(one.identity, ""), filters),
            "tenant": one.tenant,
            "episodes": one.episodes,
            "slowdown": one.mean_slowdown,
            "lost": None if one.lost_gpu_seconds is None else one.lost_gpu_seconds / 3600,
        }
        for one in hurt
    ]
    content = grids.grid(columns, rows, words, "slo-victims") if rows else states.nothing_here(words("slo.no_victims"))
    tool = exports.of_grid("slo-victims", "victims", filters, words) if rows else None
    return parts.card(
        words("slo.victims"), words("slo.victims_is"), content, tool=tool, class_name="gl-table-card" if rows else ""
    )


def _aggressors_card(named: Sequence[Aggressor], of: Mapping[str, str], filters: Filters, words: Language) -> Component:
    columns = [
        grids.link("name", words("slo.neighbour"), minimum=140),
        grids.text("victim", words("slo.victim"), minimum=120),
        grids.text("verdict", words("slo.verdict"), words("slo.verdict_is"), minimum=84, flex=0.8),
        grids.text("rose", words("slo.rose"), words("slo.rose_is"), minimum=72, flex=0.7),
        grids.number("effect", words("slo.effect"), words("slo.effect_is"), "+,.2f", after=" ×"),
    ]
    rows = [
        {
            "name": _named(one.aggressor, words),
            "href": _to_workload(of.get(one.aggressor, one.aggressor), filters),
            "victim": one.victim,
            "verdict": words(f"slo.{one.verdict}"),
            "rose": f"{one.rose} / {one.arrivals}",
            "effect": one.effect,
        }
        for one in named
    ]
    content = grids.grid(columns, rows, words, "slo-aggressors") if rows else states.nothing_here(words("slo.nobody"))
    tool = exports.of_grid("slo-aggressors", "aggressors", filters, words) if rows else None
    return parts.card(words("slo.aggressors"), words("slo.aggressors_is"), content, tool=tool,
                      class_name="gl-table-card" if rows else "")  # fmt: skip


def _named(neighbour: str, words: Language) -> str:
    """A tenant's connection names its own workloads alone."""
    return neighbour or words("slo.somebody_elses")


def _to_workload(workload: str, filters: Filters) -> str | None:
    """Whose it is does not matter there: the tenants chosen are the victims'."""
    return filters.href("/workloads", workload=workload, tenant=None, cluster=None) if workload else None


def _episodes_card(found: Sequence[Episode], filters: Filters, words: Language) -> Component:
    channels = any(one.channels for one in found[:MOST])
    columns = [
        grids.link("name", words("workload.name"), minimum=140),
        grids.text("tenant", words("filter.tenant"), minimum=84, flex=0.7),
        grids.moment("raised", words("slo.raised"), flex=0.9),
        grids.moment("ended", words("slo.ended"), flex=0.9),
        grids.number("slowdown", words("slo.slowdown"), words("slo.slowdown_is"), ",.2f", after=" ×"),
        grids.number("lost", words("slo.lost_hours"), words("slo.lost_is"), ",.3f", unit=words("unit.gpu_hours")),
        *([grids.text("channels", words("slo.channels"), words("slo.channels_is"), minimum=110)] if channels else []),
        grids.text("grade", words("slo.grade"), words("slo.grade_is"), minimum=100, flex=0.6),
        grids.sentence("neighbours", words("slo.neighbours"), minimum=180, flex=240),
    ]
    rows = [
        {
            "name": one.workload_id,
            "href": _to_workload(one.workload_id, filters),
            "tenant": one.tenant,
            "raised": filters.local(one.raised_at),
            "ended": filters.local(one.ended_at) if one.ended_at else words("slo.still"),
            "slowdown": one.mean_slowdown,
            "lost": None if one.lost_gpu_seconds is None else one.lost_gpu_seconds / 3600,
            "channels": ", ".join(words.of(f"slo.channel_{name}", name) for name in one.channels) or UNKNOWN,
            "grade": words.of(f"slo.grade_{one.grade}", one.grade),
            "neighbours": ", ".join(_named(name, words) for name in one.neighbours),
        }
        for one in found[:MOST]
    ]
    said = words("slo.episodes_is" if len(found) <= MOST else "slo.episodes_cut", most=MOST, all=f"{len(found):,}")
    content = grids.grid(columns, rows, words, "slo-episodes") if rows else states.nothing_here(words("slo.quiet"))
    tool = exports.of_grid("slo-episodes", "interference", filters, words) if rows else None
    return parts.card(words("slo.episodes"), said, content, tool=tool, class_name="gl-table-card" if rows else "")
