-- One row: an allocation that has held devices for the whole window, and how well it used what it held.
-- Units:   value: mean utilization (0-1) of its share over the measured time of all its devices; null: less than
--          {min_coverage} of it is measured, or a device is not in the inventory, so that its share is unknown. A row without
--          units holds as many as its device had then. GPU-time counts, so eight busy GPUs and eight idle ones are 0.5.
-- Shape:   samples of a partition tell of the partition; those of a workload on a device, of the whole device, of which
--          the workload can use its share (all its replicas there together) at most.
-- Params:  at; window_seconds, grace_seconds = not counted after the start; min_coverage = part of 1.
WITH
    inventory AS
    (
        SELECT cluster, device_id, argMax(d.units, (ts, d.state, d.units)) AS units,
            arrayMap(one -> (one.1, one.3), arraySort(groupArray((ts, d.state, d.units)))) AS history
        FROM devices AS d
        WHERE ts <= {at:DateTime64(3, 'UTC')}
        GROUP BY cluster, device_id
    ),
    speaking AS
    (
        SELECT DISTINCT cluster, device_id, partition_id FROM samples
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND partition_id != ''
    ),
    one_slot AS
    (
        SELECT
            h.cluster AS cluster, h.device_id AS device_id, h.allocation_id AS allocation_id, h.workload_id AS workload_id,
            h.tenant AS tenant, h.project AS project, h.queue AS queue, h.gpus AS gpus,
            if((h.cluster, h.device_id, h.partition_id) IN (SELECT * FROM speaking), h.partition_id, '') AS reported_of,
            ifNull(h.units, if(d.history[1].1 > h.start_at, d.history[1], arrayLast(one -> one.1 <= h.start_at, d.history)).2) AS units_held,
            if(d.units = 0, NULL, least(1, units_held / d.units)) AS share,
            arrayFilter(one -> one.3 AND one.5 IS NOT NULL, h.samples) AS usable
        FROM held_streams(at = {at:DateTime64(3, 'UTC')}, window_seconds = {window_seconds:UInt32}) AS h
        LEFT JOIN inventory AS d ON h.cluster = d.cluster AND h.device_id = d.device_id
        WHERE h.start_at <= {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32} + {grace_seconds:UInt32})
    ),
    one_device AS
    (
        SELECT
            cluster, device_id, allocation_id, any(workload_id) AS workload_id, any(tenant) AS tenant,
            any(project) AS project, any(queue) AS queue, max(gpus) AS gpus,
            if(countIf(share IS NULL) = 0, least(1, sum(share)), NULL) AS held,
            ifNull(held, 0) AS known,
            any(usable) AS reported,
            arraySum(arrayMap(one -> one.2, reported)) AS covered_seconds,
            arraySum(arrayMap(one -> one.2 * if(reported_of = '', least(ifNull(one.5, 0), known), known * ifNull(one.5, 0)), reported)) AS used_seconds
        FROM one_slot
        GROUP BY cluster, device_id, allocation_id, reported_of
    )
SELECT
    cluster, allocation_id,
    any(workload_id) AS workload_id, any(tenant) AS tenant, any(project) AS project, any(queue) AS queue,
    uniqExact(device_id) AS devices,
    if(countIf(held IS NULL) = 0, round(sum(held), 4), NULL) AS held_gpus,
    max(gpus) AS gpus,
    if(held_gpus IS NOT NULL AND min(covered_seconds) >= {min_coverage:Float64} * {window_seconds:UInt32},
       sum(used_seconds) / sum(held * covered_seconds), NULL) AS value,
    min(least(1., covered_seconds / {window_seconds:UInt32})) AS coverage,
    {window_seconds:UInt32} AS window_seconds
FROM one_device
GROUP BY cluster, allocation_id
