"""Service level objectives: targets, how well they are met, and how fast the error budget burns.

    objectives (YAML) ─▶ slo_definitions ─┐
    events, service_levels, ledger ───────┴─▶ measure ─▶ slo_points ─▶ views slo_status, slo_burn ─▶ rules, pages
                                                                   └─▶ credits, as billing imports them

Owns:      objectives as files, the series of what was good and bad (SLIs), error budgets, burn rates, offered credits.
Owns not:  the facts it counts, who is notified (alerts/routing), whether a credit is given (billing/accounts).
Words:     an *objective* is a promise; a *series* is what one tenant has of it on one subject (a queue, a service).
           A *point* says how much was good, bad and missing within five minutes; its unit is the objective kind's.
           The *error budget* is what may be bad: (1 - target) of all that is known in the window. A *burn rate* of 1
           uses up exactly the budget in the window.
Traps:     what is not known is neither good nor bad: it is `missing`, and lowers the coverage alone.
"""
