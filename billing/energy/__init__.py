"""Energy, carbon and held memory: what devices drew, whose it was, and what it costs and emits.

    samples ─▶ readings ─▶ measured ─┐
    segments, holdings, use ─────────┴─▶ energy_entries ─▶ report (kWh, kgCO2e), component lines

Owns:      the split of a device's energy among its holders (`attribution`, a step of the close), the grid's intensity,
           PUE and idle power as people state them (`settings`), the report, and the lines of energy and memory.
Owns not:  who held and used what (billing.close).
Words:     a *reading* is what a sample says of power and memory; *idle power* is what a model draws when it does
           nothing; *platform* is who bears unallocated and unavailable time.
"""
