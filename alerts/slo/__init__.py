"""Service level objectives: targets, how well they are met, and how fast the error budget burns.

    objectives (YAML) ─▶ slo_definitions ─┐
    events, service_levels, ledger ───────┴─▶ measure ─▶ slo_points ─▶ views slo_status, slo_burn ─▶ rules, pages
                                                                   └─▶ credits, as billing imports them

Owns:      objectives as files, the series of good and bad events (SLIs), error budgets, burn rates, offered credits.
Owns not:  the facts it counts, who is notified (alerts/routing), whether a credit is given (billing/accounts).
Words:     an *objective* is a promise; a *series* is one tenant's part of it on one subject (a queue, a service).
           A *point* says how much was good, bad and missing within five minutes; its unit depends on the objective's
           kind.
           The *error budget* is what may be bad: (1 - target) of all that is known in the window. A *burn rate* of 1
           uses up exactly the budget in the window.
Traps:     what is unknown is neither good nor bad: it is `missing`, and only lowers the coverage.

A new kind of objective: a class in `objectives`, and a .sql file that adds its points, run by `measure`.
"""
