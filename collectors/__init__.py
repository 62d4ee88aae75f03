"""Sources of records: each turns what it reads into tables with the columns of `warehouse.records`.

Owns:      reading a source (trace files, the simulated fleet, exporters), converting its units once, its identifiers.
Owns not:  validation, deduplication and writing (ingest), prices and what use means (billing).
Words:     a *replay* takes a recorded schedule as it was; a *simulated fleet* needs no files. A *plan* is the frozen
           description that a source is run with: the same plan gives the same tables, byte for byte.
"""
