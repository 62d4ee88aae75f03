"""Metrics that others push: Prometheus by remote write, OpenTelemetry by OTLP over HTTP.

Owns:      the two protocols (`remote_write`, `otlp`; `snappy` and `wire` below them), the log of what was pushed
           (`log`), and the rows that become of it (`assemble`), by the profiles of `collectors.exporters`.
Owns not:  who may push (`ingest.door`), what becomes of a row (`ingest.receive`), what a metric means (the profiles).
Words:     a *point* is one value of one series at one instant. A *push* is what one write to the log has; it is
           acknowledged when it is in the log. A *target* is what was scraped, or whose resource it is. An *instant* of
           a target is complete when nothing of it has come for a while; then it is *assembled* into rows.

Why a log: the series of one device at one instant come in several requests, over several connections, and only together
make a row. What was acknowledged must outlive a kill, so that it cannot wait in memory. `remote_write_pb2` is generated
from `remote_write.proto` (docs/receivers.md says how).
"""
