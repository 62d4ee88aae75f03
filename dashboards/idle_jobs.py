"""Where an alert on an idle holder leads: to its row on Now, where it is reclaimed."""

from __future__ import annotations

from collections.abc import Mapping

from dashboards.filters import Filters
from dashboards.registry import has_page

JOB = "job"
"""Of Now's address: the workload, or the allocation of none, whose row alone is shown."""
UNSAID = ("project", "queue", "pool", "model")
"""Filters that alerts are not narrowed by, so that their job may not match them."""


def on_now(rule: str, labels: Mapping[str, str], filters: Filters) -> str | None:
    """None: the alert is about something else, or there is no such page."""
    if not rule.startswith("idle-holder") or not has_page("/now"):
        return None
    job = labels.get("workload_id") or labels.get("allocation_id")
    return filters.href("/now", **dict.fromkeys(UNSAID), idle="1", **{JOB: job or None})
