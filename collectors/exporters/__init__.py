"""Devices as exporters tell them: dcgm-exporter, AMD, Ascend, Gaudi, TPU, HAMi, and whatever has a profile.

Owns:      reading the text they answer with (`exposition`), what a vendor's metrics mean (`profile`, profiles/*.yaml),
           what the series of one instant say of each device (`observations`), what was gained since the last time
           (`tracker`), asking an exporter (`scrape`) or a Prometheus that already has (`prometheus`), rows (`rows`).
Owns not:  which process or pod used a device (`collectors.attribution`); a device's state and who was given it.
Words:     Prometheus's: *exposition*, *series*, *sample*, *target*, *honor labels*. A *profile* says what a vendor's
           metrics mean. An *observation* is a device at one instant; a *measurement* is one over an interval.
           A *holder* is whom an exporter's labels name.
"""
