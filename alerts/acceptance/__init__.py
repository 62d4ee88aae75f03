"""Acceptance: tests whether a platform can promise GPU sharing, as one command with a report.

    plan (YAML) ─▶ cases ─▶ runs of loads, alone and side by side ─▶ checks against thresholds ─▶ report (HTML, JSON)

Owns:      the cases, the protocol of loads, the measures and the verdicts.
Owns not:  how shares and limits are enforced: the plan's commands start a load as the platform starts a tenant's
           workload.
Words:     a *load* is a program that prints a line of JSON per step. The *victim* is measured, its *companions*
           disturb.
           A check is `passed`, `failed`, `unknown` (could not be measured: never passed) or `skipped` (not requested).
"""
