"""The scheduler on virtual time: the same decisions as live, over a trace, in seconds.

Owns:      reading traces as jobs, the engine of discrete events, what is measured and shown of a run.
Owns not:  decisions (scheduler.cycle), what a metric means (scheduler.metrics), money (prices come in as a mapping).
"""
