-- One row: an allocation that has held devices for the whole window, and how well it used them.
-- Units:   value: mean utilization (0-1) over the measured time of all its devices; null: less than {min_coverage} of
--          it is measured. GPU-time counts, so eight busy GPUs and eight idle ones are 0.5.
-- Params:  at; window_seconds, grace_seconds = not counted after the start; min_coverage = part of 1.
WITH one_device AS
(
    SELECT
        h.*,
        arrayFilter(one -> one.3 AND one.5 IS NOT NULL, h.samples) AS usable,
        arraySum(arrayMap(one -> one.2, usable)) AS covered_seconds,
        arraySum(arrayMap(one -> one.2 * ifNull(one.5, 0), usable)) AS used_seconds
    FROM held_streams(at = {at:DateTime64(3, 'UTC')}, window_seconds = {window_seconds:UInt32}) AS h
    WHERE h.start_at <= {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32} + {grace_seconds:UInt32})
)
SELECT
    cluster, allocation_id,
    any(workload_id) AS workload_id, any(tenant) AS tenant, any(project) AS project, any(queue) AS queue,
    uniqExact(device_id) AS devices,
    max(gpus) AS gpus,
    if(min(covered_seconds) >= {min_coverage:Float64} * {window_seconds:UInt32},
       sum(used_seconds) / sum(covered_seconds), NULL) AS value,
    min(least(1., covered_seconds / {window_seconds:UInt32})) AS coverage,
    {window_seconds:UInt32} AS window_seconds
FROM one_device
GROUP BY cluster, allocation_id
