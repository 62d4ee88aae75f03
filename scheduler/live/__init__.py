"""The live scheduler: a thin loop around the same decisions, with a log, an HTTP API and executors.

Owns:      the loop (service), what starts and stops jobs (executors), HTTP, the text that Prometheus scrapes.
Owns not:  decisions (scheduler.cycle), the log's form and what entries mean (scheduler.records).
Words:     an *executor* starts and stops jobs somewhere; it is asked more than once, and does it once.
"""
