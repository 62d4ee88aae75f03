"""Idle jobs that the server's scheduler may reclaim: what its policy does next, and an operator's yes or no to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from dash import dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from alerts.speaking import rules_by_name
from api.reach import Reach
from api.routes.idle_jobs import IdleJob, listed
from dashboards import forms, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, gpu_count, money, unbroken
from dashboards.idle_jobs import JOB
from dashboards.languages import Language
from dashboards.said import said, who
from scheduler.live.idle import RULE
from scheduler.words import policy, policy_act
from warehouse.durations import parse_if_duration
from warehouse.errors import LedgerError
from warehouse.store import Store

NOTICES = "now-done"
"""The id of where the page says what was done to jobs."""
_NOTHING = "nothing: "
"""Before the reason why a job's policy does nothing to it (scheduler.live.idle)."""
_WEIGHT = {"proposed": -1, "kept": 1, "suspended": 2}
"""Order of the jobs: first those that wait for somebody's yes."""


Prices = Mapping[tuple[str, str], Decimal | None]
"""What an hour of an allocation costs at list price, by (cluster, allocation_id); None: the card has no price."""


@dataclass(frozen=True)
class Known:
    """What the books know of what is allocated.   used: what was in use in the last five minutes."""

    prices: Prices = field(default_factory=dict)
    currency: str = ""
    used: Set[tuple[str, str]] = frozenset()

    def uses(self, one: IdleJob, cluster: str) -> bool:
        """Whether a job works again that the scheduler, whose alert is of some minutes ago, still has as idle."""
        return any((cluster, allocation) in self.used for allocation in one.allocations)


def part(store: Store, filters: Filters, words: Language, reach: Reach, known: Callable[[], Known]) -> Component | None:
    """Nothing if the server has no scheduler. Of the fleet: a scheduler's tenants need not be those of the books.
    known: of what is allocated; asked for where there are jobs."""
    if not reach.scheduler or not current().may(Action.see_fleet):
        return None
    try:
        found = listed(reach, current().actor)
    except LedgerError as error:
        why = html.P(str(error), className="gl-form-error", role="alert")
        return _card(filters, words, html.P(words("now.no_scheduler"), className="gl-note"), why)
    chosen = {name: filters.address.chosen.get(name, ()) for name in ("tenant", "queue", "cluster")}
    jobs = [
        one
        for one in found.jobs
        if all(
            not values or value in values
            for values, value in zip(chosen.values(), (one.tenant, one.queue, found.cluster), strict=True)
        )
    ]
    if asked := filters.more.get(JOB):
        jobs = [one for one in jobs if asked == one.job_id or asked in one.allocations]
        if not jobs:
            return None
    if not jobs:
        empty = (
            words("now.jobs_unknown", why=said(found.problem, filters, words))
            if found.problem
            else words("now.no_jobs")
        )
        return _card(filters, words, states.nothing_here(empty))
    allocated = known()
    hours = {one.job_id: _hour(one, found.cluster, allocated.prices) for one in jobs}
    jobs.sort(key=lambda one: _order(one, hours[one.job_id]))
    heads = [words("now.job"), words("now.job_act")]
    why = said(found.problem, filters, words)
    unknown = html.P(words("now.jobs_unknown", why=why), className="gl-note") if why else None
    cells = [_cells(one, hours[one.job_id], found.cluster, allocated, filters, words) for one in jobs]
    return _card(filters, words, unknown, parts.table(heads, cells))


def _card(filters: Filters, words: Language, *content: Component | None) -> Component:
    """As of this moment: the scheduler may see a job as idle that the facts so far do not, or no longer."""
    asked = words("wait.as_of", at=words.moment(filters.local(datetime.now(UTC))))
    return parts.card(words("now.jobs"), f"{words('now.jobs_is')} · {asked}", *content, id="now-reclaim")


def _hour(one: IdleJob, cluster: str, priced: Prices) -> Decimal | None:
    """What an hour of all that it holds costs; None: the books do not know some of it, or have no price for it."""
    found = [priced.get((cluster, allocation)) for allocation in one.allocations]
    known = [price for price in found if price is not None]
    return sum(known, Decimal(0)) if known and len(known) == len(found) else None


def _order(one: IdleJob, hour: Decimal | None) -> tuple[int, bool, Decimal, float, str]:
    """The dearest hour first of those at the same step; those without a known price last, by what was idle of them."""
    idle_gpu_seconds = one.gpus * (one.idle_seconds or 0.0)
    return _WEIGHT.get(one.step, 0), hour is None, -(hour or Decimal(0)), -idle_gpu_seconds, one.job_id


def _price(hour: Decimal | None, currency: str, words: Language) -> str:
    return "" if hour is None else words("now.job_hour", amount=money(hour, currency))


def _cells(
    one: IdleJob, hour: Decimal | None, cluster: str, known: Known, filters: Filters, words: Language
) -> list[Component | str]:
    """Two columns, so that a phone shows the buttons."""
    price, is_used = _price(hour, known.currency, words), known.uses(one, cluster)
    held = words("workload.gpus_one" if one.gpus == 1 else "workload.gpus", n=gpu_count(one.gpus)) if one.gpus else ""
    whose = " · ".join(filter(None, (one.tenant, one.queue, held, price)))
    step = words.of(f"now.step_{one.step}", one.step)
    if one.by:
        step = words("now.proposed_by" if one.step == "proposed" else "now.step_by", step=step, by=who(one.by, words))
    again = words("now.job_used_again") if is_used else ""
    details = " · ".join(filter(None, (_idle(one, filters, words), again, step, _next(one, filters, words))))
    acts = _acts(one, is_used, filters, words)
    return [
        html.Span(
            [_job(one, filters), html.Span(unbroken(whose)), html.Span(unbroken(details))], className="gl-idle-job"
        ),
        html.Div(acts, className="gl-acts") if acts else "",
    ]


def _job(one: IdleJob, filters: Filters) -> Component:
    """Its name, which leads to its page: in the books a job of the scheduler is a workload of the same name."""
    return dcc.Link(one.job_id, href=filters.href("/workloads", workload=one.job_id), className="gl-go")


def _idle(one: IdleJob, filters: Filters, words: Language) -> str:
    if one.step == "suspended":
        return ""
    if one.problem:
        return said(one.problem, filters, words)
    if one.idle_seconds is None:
        return words("now.job_idle", span=UNKNOWN)
    looked_back = _looked_back(filters)
    is_all = looked_back is not None and one.idle_seconds >= looked_back
    return words("now.job_idle_at_least" if is_all else "now.job_idle", span=duration(one.idle_seconds, words))


def _looked_back(filters: Filters) -> float | None:
    """Seconds over which the rule that a scheduler asks looks; None: the rules cannot be read."""
    rule = rules_by_name(filters.rules).get(RULE)
    window = parse_if_duration(rule.parameters.get("window_seconds")) if rule else None
    return float(window) if isinstance(window, int | float) else None


def _next(one: IdleJob, filters: Filters, words: Language) -> str:
    """Nothing where the step says already that it depends on somebody."""
    if one.step in ("kept", "shrunk", "suspended") or (one.step == "proposed" and one.next_at is None):
        return ""
    if one.next.startswith(_NOTHING):
        return words("now.job_stays", why=said(one.next.removeprefix(_NOTHING), filters, words))
    what = one.next.removeprefix("proposal: ")
    named = words.of(f"now.next_{what}", said(what, filters, words))
    asks = words("now.next_proposal", what=named) if what != one.next else named
    if one.next_at is None:
        return words("now.job_next", what=asks)
    key = "now.job_next_at" if one.next_at > datetime.now(UTC) else "now.job_next_due"
    return words(key, what=asks, at=words.moment(filters.local(one.next_at)))


def _sure(one: IdleJob, words: Language) -> str:
    """What is asked before a job is reclaimed: what its policy does to it, at once."""
    key = f"now.reclaim_sure_{policy_act(one.policy) or 'other'}"
    return words(key, job=one.job_id, policy=policy(one.policy, words.code))


def _did(what: str, one: IdleJob, words: Language) -> str:
    """What is said of a job afterwards, which may be in no list any more."""
    key = f"now.did_reclaim_{policy_act(one.policy) or 'other'}" if what == "reclaim" else f"now.did_{what}"
    return words(key, job="{job}")


def _records(one: IdleJob, filters: Filters, words: Language) -> list[tuple[str, str]]:
    """Where what was done is written down."""
    links = [(words("now.job_page"), filters.href("/workloads", workload=one.job_id))]
    if current().may(Action.see_audit):
        links.append((words("now.in_audit"), filters.href("/administration", part="audit", find=one.job_id)))
    return links


def _acts(one: IdleJob, is_used: bool, filters: Filters, words: Language) -> list[Component]:
    """Of those that the reader may take. Keep is for one that is not kept yet; to reclaim, and to propose it, needs a
    policy and known idleness, which one that is used again has no longer. The scheduler judges each of them."""
    may = current().may

    def act(what: str, sure: str = "") -> Component:
        body = {"job": one.job_id}
        return forms.form(
            f"POST /idle-jobs/{what}",
            words(f"now.{what}"),
            words,
            body=body,
            sure=sure,
            done=_did(what, one, words),
            notices=NOTICES,
            links=_records(one, filters, words),
            small=True,
        )

    if one.step == "suspended":
        return [act("resume")] if may(Action.reclaim) else []
    acts = []
    is_reclaimable = bool(one.policy) and one.idle_seconds is not None and one.step != "kept" and not is_used
    if is_reclaimable and may(Action.reclaim):
        acts.append(act("reclaim", _sure(one, words)))
    if is_reclaimable and one.step != "proposed" and may(Action.propose):
        acts.append(act("propose"))
    if one.step != "kept" and may(Action.reclaim):
        acts.append(act("keep"))
    return acts
