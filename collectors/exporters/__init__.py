"""Devices read from exporters: dcgm-exporter, AMD, Ascend, Gaudi, TPU, HAMi, and any other that has a profile.

    scrape | prometheus ─▶ exposition ─▶ observations (profile, units) ─▶ tracker ─▶ rows, inventory

Owns:      parsing the text format (`exposition`), what a vendor's metrics mean (`profile`, profiles/*.yaml), what the
           series of one instant say of each device (`observations`), in which unit (`units`), increases since the last
           time (`tracker`), asking an exporter (`scrape`) or a Prometheus that scrapes it (`prometheus`), rows
           (`rows`).
Owns not:  which process or pod used a device (`collectors.attribution`); a device's state and its allocations.
Words:     Prometheus's: *exposition*, *series*, *sample*, *target*, *honor labels*. A *profile* says what a vendor's
           metrics mean. An *observation* is a device at one instant; a *measurement* is one over an interval.
           A *holder* is the pod or job that an exporter's labels name.
"""
