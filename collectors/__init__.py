"""Sources of records: each turns what it reads into tables with the columns of `warehouse.records`.

Owns:      reading a source (trace files, the simulated fleet, exporters), converting its units once, its identifiers.
Owns not:  validation, deduplication and writing (ingest), prices and what use means (billing).
Words:     a *replay* feeds in a recorded schedule unchanged; a *simulated fleet* needs no files. A *plan* is the frozen
           description that a source is run with: the same plan gives the same tables, byte for byte.

    agent         the process on a node: reads its sources at ticks, spools, delivers
    nvml          NVIDIA GPUs through the driver's library
    exporters     devices of any vendor, through exporters or a Prometheus; one profile (YAML) per vendor
    attribution   which workload's processes are on a device, and which devices the kubelet assigned
    services      inference servers and training: latencies, throughput, progress
    prometheus    the history that a Prometheus holds: devices, use, and pods from kube-state-metrics
    receivers     metrics that others push: remote write, OTLP
    kubernetes    the API server: pods as events, nodes and slices as devices
    slurm         jobs and nodes from the accounting, the controller or the REST API
    jobs          processes that gpuledger's scheduler starts on a node
    traces        public cluster traces, replayed
    simulated     a fleet that needs no files

A new vendor is a profile in exporters/profiles, a new inference server one in services/profiles, a new source a folder
here (CONTRIBUTING.md has the steps).
"""
