"""Prometheus metrics about alerting: alerts, the watermark, deliveries."""

from __future__ import annotations

from collectors.agent.exposition import Family, render
from warehouse.store import Store, read_sql


def families(store: Store) -> list[Family]:
    """Alerts by rule and state, the watermark, and what became of deliveries."""
    found = [
        Family("gpuledger_alerts", "gauge", "Alerts that are pending or fire, by rule."),
        Family("gpuledger_alert_evaluated_until_timestamp_seconds", "gauge", "Watermark: time of the facts so far."),
        Family("gpuledger_alert_evaluation_timestamp_seconds", "gauge", "When the last evaluation was written."),
        Family(
            "gpuledger_alert_evaluations_failed", "gauge", "Evaluations of the last run that failed or saw no data."
        ),
        Family("gpuledger_alert_deliveries_total", "counter", "Attempts to notify a target, by outcome."),
    ]
    counts, until, ran, failed, sent = found
    for row in store.rows(read_sql(__file__, "metric_rows")):
        counts.add(row["alerts"], rule=row["rule"], severity=row["severity"], state=row["state"])
    for row in store.rows("SELECT evaluated_until, finished_at, failed FROM alert_runs ORDER BY run DESC LIMIT 1"):
        until.add(row["evaluated_until"].timestamp())
        ran.add(row["finished_at"].timestamp())
        failed.add(row["failed"])
    for row in store.rows(read_sql(__file__, "metric_deliveries")):
        sent.add(row["n"], target=row["target"], outcome=row["outcome"])
    return found


def exposition(store: Store) -> str:
    """Source: https://prometheus.io/docs/instrumenting/exposition_formats/"""
    return render(families(store))
