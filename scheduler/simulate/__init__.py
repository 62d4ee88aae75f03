"""The scheduler in virtual time: simulates a trace, with the same decisions as live, in seconds.

Owns:      reading traces as jobs, the discrete-event engine, measures and reports of a run.
Owns not:  decisions (scheduler.cycle), what a metric means (scheduler.metrics), money (prices come in as a mapping).
"""
