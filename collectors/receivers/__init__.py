"""Metrics that others push: Prometheus by remote write, OpenTelemetry by OTLP over HTTP.

    endpoint ─▶ remote_write | otlp ─▶ points ─▶ log (in the store) ─▶ assembler ─▶ assemble ─▶ rows ─▶ ingest.receive

Owns:      the two protocols (`remote_write`, `otlp`; `snappy` and `wire` below them), the log of pushed points
           (`log`), and the rows made from it (`assemble`), by the profiles of `collectors.exporters`.
Owns not:  who may push (`ingest.admission`), what becomes of a row (`ingest.receive`), what a metric means (profiles).
Words:     a *point* is one value of one series at one instant. A *push* is one write to the log; it is acknowledged
           once it is in the log. A *target* is what was scraped, or what an OTLP resource describes. An *instant* of a
           target is complete when none of its points has come for a while; then it is *assembled* into rows.

Why a log: the series of one device at one instant come in several requests, over several connections, and only together
make a row. Acknowledged points must survive a kill, so they cannot wait in memory. `remote_write_pb2` is generated from
`remote_write.proto` (docs/receivers.md says how).
"""
