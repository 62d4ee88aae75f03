"""Sources of records: each turns what it reads into tables with the columns of `warehouse.records`.

Owns:      reading a source (trace files, the simulated fleet, exporters), converting its units once, its identifiers.
Owns not:  validation, deduplication and writing (ingest), prices and what use means (billing).
Words:     a *replay* takes a recorded schedule as it was; a *simulated fleet* needs no files. A *plan* is the frozen
           description that a source is run with: the same plan gives the same tables, byte for byte.

    agent         the process on a node: asks its sources at ticks, spools, delivers
    nvml          NVIDIA GPUs through the driver's library
    exporters     devices of any vendor through exporters or a Prometheus; a profile a vendor
    attribution   whose processes are on a device, and what the kubelet handed out
    services      inference servers and training: latencies, throughput, progress
    prometheus    a Prometheus's history: devices, use, and pods from kube-state-metrics
    receivers     metrics that others push: remote write, OTLP
    kubernetes    the API server: pods as events, nodes and slices as devices
    slurm         jobs and nodes from the accounting, the controller or the REST API
    jobs          processes that the scheduler starts on a node
    traces        public cluster traces, replayed
    simulated     a fleet that needs no files
"""
