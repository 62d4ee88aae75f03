"""Rules over the warehouse, the states of alerts, and their notifications.

    rules/*.yaml + *.sql ─▶ evaluate ─▶ transitions (the state of every instance, as rows) ─▶ routing ─▶ transports
                              ▲ watermark                                                       ▲ silences, hours

Owns:      rules as files, their evaluation, alert states (inactive, pending, firing, resolved), routing, SLOs.
Owns not:  the numbers that rules read (billing, the warehouse), what people see of alerts (dashboards).
Words:     an *instance* is a row of a rule's query, identified by its identity labels; its *fingerprint* is a hash of
           the rule's name and those. An *occurrence* is one stretch of an instance from `active_at` to `resolved_at`.
           A *target* is one endpoint of a receiver: each Alertmanager of several is one.
           *Data time* is the time of the facts; the *watermark* is the data time up to which all rules were evaluated.
Traps:     unknown (a null value, no data, a failed query) neither starts nor resolves an alert; that it is unknown is
           an alert of its own.

    rules          the shipped rules, with their queries
    languages      the shipped rules' texts in other languages
    transports     ways to notify, one file each
    slo            service level objectives: what is left of each error budget
    interference   which workloads slow down others on a shared GPU
    acceptance     tests a platform before it promises sharing

A new alert is a rule in rules/ with its SQL (CONTRIBUTING.md); a new way to notify is a module in transports/.
"""
