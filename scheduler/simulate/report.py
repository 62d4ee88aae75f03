"""The results of a run, and several runs side by side: as rows, and as a page with curves.

A cost is unit-seconds held / units of a device x price of its model per GPU-hour; a model without a price makes the
cost of who held it unknown, not less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cycle.expectations import CONFIDENCE, Expectations
from scheduler.metrics import Meter
from scheduler.quantiles import Quantiles
from scheduler.records.events import instant
from scheduler.simulate.engine import Outcome

if TYPE_CHECKING:
    import plotly.graph_objects as go

Point = tuple[float, Mapping[str, float]]
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class TenantLine:
    """gpu_hours: held.   cost: None where a price is missing, or there are no prices."""

    tenant: str
    gpu_hours: float
    redemption: float | None
    service_ratio: float | None
    cost: Decimal | None


@dataclass(frozen=True)
class Report:
    """measures: name -> value, the unit last in the name; None = there was nothing to measure.   curve: averages.

    waits: of all jobs that started, in seconds.
    """

    name: str
    measures: Mapping[str, float | int | Decimal | None]
    tenants: Sequence[TenantLine]
    queues: Sequence[Mapping[str, Any]]
    preemptions: Sequence[Mapping[str, Any]]
    curve: Sequence[Point]
    waits: Quantiles = field(repr=False)

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "config": self.name,
            "measures": dict(self.measures),
            "tenants": [
                {
                    "tenant": line.tenant,
                    "gpu_hours": line.gpu_hours,
                    "quota_redemption": line.redemption,
                    "service_ratio": line.service_ratio,
                    "cost": line.cost,
                }
                for line in self.tenants
            ],
            "queues": [dict(queue) for queue in self.queues],
            "preemptions": [dict(row) for row in self.preemptions],
        }


def report(
    name: str,
    meter: Meter,
    outcome: Outcome,
    prices: Mapping[str, Decimal] | None,
    curve: Sequence[Point] = (),
    wall_seconds: float | None = None,
    expectations: Expectations | None = None,
) -> Report:
    """Of a run that is over.   prices: model -> price of a GPU-hour."""
    expectations = expectations or Expectations()
    wait, slowdown = Quantiles(), Quantiles()
    for queue in meter.queues.values():
        wait.merge(queue.wait)
        slowdown.merge(queue.slowdown)
    tenants = tenant_lines(meter, prices)
    costs = [line.cost for line in tenants]
    fragments = [point["fragmentation_ratio"] for _, point in curve if "fragmentation_ratio" in point]
    measures: dict[str, float | int | Decimal | None] = {
        "jobs": outcome.jobs,
        "finished": meter.ended_as("completed"),
        "stopped_at_limit": meter.ended_as("timeout"),
        "completion_ratio": meter.completion,
        "never_started": outcome.waiting,
        "makespan_days": (outcome.until - meter.started_at) / 86_400,
        "wait_mean_seconds": wait.mean,
        **{f"wait_p{q * 100:g}_seconds": wait.at(q) for q in QUANTILES},
        "wait_max_seconds": wait.at(1.0),
        "bounded_slowdown_mean": slowdown.mean,
        "bounded_slowdown_p95": slowdown.at(0.95),
        "expected_intervals": expectations.intervals,
        "expected_confidence": CONFIDENCE,
        "expected_kept_ratio": expectations.met / expectations.intervals if expectations.intervals else None,
        "wait_bound_violations": sum(queue.violations.total() for queue in meter.queues.values()),
        "utilization_ratio": meter.utilization,
        "jain_index": meter.jain(),
        "quota_redemption_ratio": meter.redemption(),
        "breach_gpu_hours": meter.breach_gpu_seconds() / 3600,
        "preempted_jobs": sum(count.jobs for count in meter.preemptions.values()),
        "preempted_replicas": sum(count.replicas for count in meter.preemptions.values()),
        "preemption_lost_gpu_hours": sum(count.lost_gpu_seconds for count in meter.preemptions.values()) / 3600,
        "fragmentation_ratio": sum(fragments) / len(fragments) if fragments else None,
        "gpu_hours": meter.held_area / 3600,
        "cost": None if None in costs or not prices else sum((cost for cost in costs if cost is not None), Decimal(0)),
        "cycles": outcome.cycles,
        "wall_seconds": wall_seconds,
    }
    return Report(name, measures, tenants, queue_rows(meter), preemption_rows(meter), curve, wait)


def tenant_lines(meter: Meter, prices: Mapping[str, Decimal] | None) -> list[TenantLine]:
    """A line for each tenant that held or was promised anything."""
    held: dict[str, float] = {}
    costs: dict[str, Decimal | None] = {}
    for (tenant, model, whole), seconds in sorted(meter.held_unit_seconds().items()):
        hours = seconds / whole / 3600
        held[tenant] = held.get(tenant, 0.0) + hours
        price = (prices or {}).get(model)
        before = costs.get(tenant, Decimal(0))
        costs[tenant] = None if price is None or before is None else before + _cost(seconds, whole, price)
    lines = []
    accounts = meter.accounts()
    for tenant in sorted(held | {name: 0.0 for name, _ in accounts}):
        own = [account for (name, _), account in accounts.items() if name == tenant]
        entitled, demand = (sum(getattr(a, what) for a in own) for what in ("entitled_area", "demand_area"))
        lines.append(
            TenantLine(
                tenant,
                held.get(tenant, 0.0),
                sum(a.redeemed_area for a in own) / entitled if entitled else None,
                sum(a.held_area for a in own) / demand if demand else None,
                (costs[tenant] if tenant in costs else Decimal(0)) if prices else None,
            )
        )
    return lines


def _cost(unit_seconds: float, whole: int, price: Decimal) -> Decimal:
    """Of unit-seconds held, to the unit-millisecond, as billing counts."""
    return Decimal(round(unit_seconds * 1000)) * price / (whole * 3_600_000)


def queue_rows(meter: Meter) -> list[dict[str, Any]]:
    """A row for each queue that a job went through."""
    return [
        {
            "queue": name,
            "started": queue.wait.count,
            "wait_mean_seconds": queue.wait.mean,
            **{f"wait_p{q * 100:g}_seconds": queue.wait.at(q) for q in QUANTILES},
            "wait_max_seconds": queue.wait.at(1.0),
            "wait_bound_violations": queue.violations.total(),
            "violations_by_cause": dict(sorted(queue.violations.items())),
        }
        for name, queue in sorted(meter.queues.items())
    ]


def preemption_rows(meter: Meter) -> list[dict[str, Any]]:
    """Who lost to whom, and by which right."""
    return [
        {
            "victim": victim,
            "preemptor": by,
            "authority": authority,
            "jobs": count.jobs,
            "replicas": count.replicas,
            "lost_gpu_hours": count.lost_gpu_seconds / 3600,
        }
        for (victim, by, authority), count in sorted(meter.preemptions.items())
    ]


def side_by_side(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """A row for each measure, then for each tenant's GPU-hours and cost, a column for each run."""
    rows = [
        {"measure": measure, **{run.name: run.measures[measure] for run in reports}} for measure in reports[0].measures
    ]
    tenants = sorted({line.tenant for run in reports for line in run.tenants})
    for what, of in (("gpu_hours", "gpu_hours"), ("cost", "cost"), ("quota_redemption_ratio", "redemption")):
        for tenant in tenants:
            found = {
                run.name: next((getattr(line, of) for line in run.tenants if line.tenant == tenant), None)
                for run in reports
            }
            if any(value is not None for value in found.values()):
                rows.append({"measure": f"{what} of {tenant}", **found})
    return rows


def plot(reports: Sequence[Report], path: Path, title: str, notes: Sequence[str]) -> None:
    """One page that needs nothing else: curves of use and queue, waits, and each tenant's cost or GPU-hours."""
    figure = _figure(reports, title, notes)
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def _figure(reports: Sequence[Report], title: str, notes: Sequence[str]) -> go.Figure:
    import plotly.graph_objects as go
    from plotly.colors import qualitative
    from plotly.subplots import make_subplots

    priced = all(line.cost is not None for run in reports for line in run.tenants)
    names = ("GPUs held", "Jobs waiting", "Wait (seconds)", "Cost by tenant" if priced else "GPU-hours by tenant")
    figure = make_subplots(rows=2, cols=2, subplot_titles=names, vertical_spacing=0.14)
    for number, run in enumerate(reports):
        color = qualitative.Safe[number % len(qualitative.Safe)]
        times = [_iso(at) for at, _ in run.curve]
        look: dict[str, Any] = {"name": run.name, "legendgroup": run.name}
        for column, what in ((1, "held_gpus"), (2, "waiting_jobs")):
            curve = [point[what] for _, point in run.curve]
            figure.add_trace(
                go.Scatter(x=times, y=curve, mode="lines", line_color=color, showlegend=column == 1, **look),
                row=1,
                col=column,
            )
        waits = [run.measures[f"wait_p{q * 100:g}_seconds"] for q in QUANTILES]
        quantiles = [f"p{q * 100:g}" for q in QUANTILES]
        figure.add_trace(go.Bar(x=quantiles, y=waits, marker_color=color, showlegend=False, **look), row=2, col=1)
        amounts = [float(line.cost) if priced and line.cost is not None else line.gpu_hours for line in run.tenants]
        figure.add_trace(
            go.Bar(x=[line.tenant for line in run.tenants], y=amounts, marker_color=color, showlegend=False, **look),
            row=2,
            col=2,
        )
    figure.update_layout(title_text=title, template="plotly_white", height=900, margin_b=60 + 18 * len(notes))
    if notes:
        note = {"text": "<br>".join(notes), "xref": "paper", "yref": "paper", "x": 0, "y": -0.08, "yanchor": "top"}
        figure.add_annotation(showarrow=False, align="left", font_size=11, **note)
    return figure


def _iso(seconds: float) -> str:
    return instant(seconds).isoformat()
