-- One row: a group of devices (those of one model in one pool of a cluster) in a period; the most devices first. Nobody but who
-- sees all tenants has any.
-- gpus: devices at once that the books have of it.   available, allocated: GPUs on average over its closed hours.
-- full_hours: hours in which less than 5 % of what was available was free; hours: of which something is closed.
-- least_free: the part that was free in its fullest hour, 0-1; NULL: nothing was ever available.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); pools, models, clusters Array(String), empty: all.
SELECT
    cluster, pool, model,
    max(devices) AS gpus,
    count() AS hours,
    avg(available_gpus) AS available,
    avg(allocated_gpus) AS allocated,
    countIf(available_gpus > 0 AND free_gpus < 0.05 * available_gpus) AS full_hours,
    minOrNullIf(free_gpus / available_gpus, available_gpus > 0) AS least_free
FROM
(
    SELECT
        l.hour AS hour, l.cluster AS cluster, l.pool AS pool, l.model AS model,
        uniqExact(l.device_id) AS devices,
        dateDiff('second', greatest(toDateTime({start:DateTime64(3,'UTC')}, 'UTC'), l.hour), least(toDateTime({end:DateTime64(3,'UTC')}, 'UTC'), l.hour + INTERVAL 1 HOUR)) / 3600 AS part,
        sum(toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms) / (l.device_units * 3600000)) / part AS allocated_gpus,
        sum(l.unallocated_unit_ms / (l.device_units * 3600000)) / part AS free_gpus,
        allocated_gpus + free_gpus AS available_gpus
    FROM ledger AS l
    WHERE l.hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND l.hour < {end:DateTime64(3,'UTC')}
        AND l.charge_period_start >= {start:DateTime64(3,'UTC')} AND l.charge_period_start < {end:DateTime64(3,'UTC')}
        AND (SELECT yes FROM sees_all)
        AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, l.pool))
        AND (empty({models:Array(String)}) OR has({models:Array(String)}, l.model))
        AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, l.cluster))
    GROUP BY hour, cluster, pool, model
)
GROUP BY cluster, pool, model
ORDER BY gpus DESC, cluster, pool, model
