"""Rules over the warehouse, the states of alerts, and their notifications.

    rules/*.yaml + *.sql ─▶ evaluate ─▶ transitions (the state of every instance, as rows) ─▶ routing ─▶ transports
                              ▲ watermark                                                       ▲ silences, hours

Owns:      rules as files, their evaluation, alert states (inactive, pending, firing, resolved), routing, SLOs.
Owns not:  the numbers it looks at (billing, the warehouse), what people see of it (dashboards).
Words:     an *instance* is a row of a rule's query, told apart by its identity labels; its *fingerprint* is a hash of
           the rule's name and those. An *occurrence* is one stretch of an instance from `active_at` to `resolved_at`.
           A *target* is one endpoint of a receiver: each Alertmanager of several is one.
           *Data time* is the time of the facts; the *watermark* is how far in it everything was evaluated.
Traps:     what is unknown (a null value, no data, a query that fails) starts nothing and resolves nothing; that it is
           unknown is an alert of its own.

    rules          the shipped rules, with their queries
    transports     ways to notify, one file each
    slo            service level objectives: what is left of each error budget
    interference   who slows whom down on a shared GPU
    acceptance     what a platform must prove before it promises sharing
"""
