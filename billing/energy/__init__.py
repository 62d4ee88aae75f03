"""Energy, carbon and memory: what devices consumed, attributed to their holders, with cost and emissions.

    samples ─▶ readings ─▶ measured ─┐
    segments, holdings, use ─────────┴─▶ energy_entries ─▶ report (kWh, kgCO2e), component lines

Owns:      the split of a device's energy among its holders (`attribution`, a step of the close), the grid's intensity,
           PUE and idle power from the applied file (`settings`), the report, and the lines of energy and memory.
Owns not:  who held and used what (billing.close).
Words:     a *reading* is the power and memory in a sample; *idle power* is what a model draws when it does nothing; the
           *platform* bears unallocated and unavailable time.
"""
