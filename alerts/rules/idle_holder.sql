-- One row: an allocation that holds devices at an instant, and for how long it has done nothing with any of them.
-- Units:   held_gpus: null: a device is not in the inventory. A row without units holds as many as its device had then.
--          value: seconds, at most the window; null: unknown. Idle since the later of the last activity and the start
--          with its grace. Activity: utilization or any engine above {idle_below}, requests or training steps that the
--          workload's own metrics tell, or a kernel that the driver remembers.
-- Unknown: less than {min_coverage} of that time is measured, or only one signal says idle. Two are wanted: nothing
--          used, and one of: the driver confirms it, no engine was active, power lay flat.
-- Params:  at; window_seconds, grace_seconds; idle_below, min_coverage = parts of 1.
WITH
    toUnixTimestamp64Milli({at:DateTime64(3, 'UTC')}) / 1000 AS now,
    inventory AS
    (
        SELECT cluster, device_id, argMax(d.units, (ts, d.state, d.units)) AS units,
            arrayMap(one -> (one.1, one.3), arraySort(groupArray((ts, d.state, d.units)))) AS history
        FROM devices AS d
        WHERE ts <= {at:DateTime64(3, 'UTC')}
        GROUP BY cluster, device_id
    ),
    reported AS
    (
        SELECT cluster, workload_id, max(ts) AS active_at
        FROM service_levels
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND workload_id != '' AND value > 0
            AND metric IN ('requests_per_second', 'requests_running', 'training_steps_per_second')
        GROUP BY cluster, workload_id
    ),
    kernels AS
    (
        SELECT cluster, device_id, max(ts - toIntervalSecond(toUInt32(ifNull(value, 0)))) AS active_at
        FROM metrics
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')}
            AND metric = 'last_kernel_seconds' AND value IS NOT NULL
        GROUP BY cluster, device_id
    ),
    one_device AS
    (
        SELECT
            h.cluster AS cluster, h.node AS node, h.device_id AS device_id, h.allocation_id AS allocation_id,
            h.workload_id AS workload_id, h.tenant AS tenant, h.project AS project, h.queue AS queue, h.gpus AS gpus,
            ifNull(h.units, if(d.history[1].1 > h.start_at, d.history[1], arrayLast(one -> one.1 <= h.start_at, d.history)).2) AS units_held,
            if(d.units = 0, NULL, least(1, units_held / d.units)) AS share,
            h.start_at AS start_at,
            toUnixTimestamp64Milli(h.start_at) / 1000 AS start,
            arrayFilter(one -> one.3 AND one.1 > h.start_at, h.samples) AS usable,
            arrayLast(one -> one.5 > {idle_below:Float64} OR one.6 > {idle_below:Float64}, usable) AS last_active,
            greatest(
                least(now, start + {grace_seconds:UInt32}),
                now - {window_seconds:UInt32},
                toUnixTimestamp64Milli(last_active.1) / 1000,
                toUnixTimestamp64Milli(reported.active_at) / 1000,
                toUnixTimestamp64Milli(kernels.active_at) / 1000) AS idle_since,
            now - idle_since AS idle_seconds,
            arrayFilter(one -> toUnixTimestamp64Milli(one.1) / 1000 > idle_since, usable) AS quiet,
            arraySum(arrayMap(one -> one.2, quiet)) AS covered_seconds,
            arrayFilter(watts -> watts IS NOT NULL, arrayMap(one -> one.7, quiet)) AS watts,
            arrayFilter(active -> active IS NOT NULL, arrayMap(one -> one.6, quiet)) AS engines,
            notEmpty(quiet) AND arrayAll(one -> one.4, quiet) AS is_confirmed,
            notEmpty(engines) AS no_engine_active,
            length(watts) >= 3 AND arrayMax(watts) <= 1.15 * arrayMin(watts) + 10 AS is_power_flat,
            idle_seconds < 60 OR (covered_seconds >= {min_coverage:Float64} * idle_seconds
                AND (is_confirmed OR no_engine_active OR is_power_flat)) AS is_known,
            arrayMax(arrayMap(one -> one.8, quiet)) AS memory_bytes
        FROM held_streams(at = {at:DateTime64(3, 'UTC')}, window_seconds = {window_seconds:UInt32}) AS h
        LEFT JOIN inventory AS d ON h.cluster = d.cluster AND h.device_id = d.device_id
        LEFT JOIN reported ON h.cluster = reported.cluster AND h.workload_id = reported.workload_id
        LEFT JOIN kernels ON h.cluster = kernels.cluster AND h.device_id = kernels.device_id
    )
SELECT
    cluster, allocation_id,
    any(workload_id) AS workload_id, any(tenant) AS tenant, any(project) AS project, any(queue) AS queue,
    arrayStringConcat(arraySort(groupUniqArray(node)), ' ') AS nodes,
    uniqExact(device_id) AS devices,
    if(countIf(share IS NULL) = 0, round(sum(share), 4), NULL) AS held_gpus,
    max(gpus) AS gpus,
    if(countIf(NOT is_known) = 0 OR countIf(is_known AND idle_seconds < 60) > 0, minIf(idle_seconds, is_known), NULL) AS value,
    fromUnixTimestamp64Milli(toInt64(max(idle_since) * 1000), 'UTC') AS idle_since,
    min(start_at) AS held_since,
    min(least(1., covered_seconds / greatest(idle_seconds, 1))) AS coverage,
    sumOrNull(memory_bytes) AS memory_used_bytes,
    arrayStringConcat(arrayFilter(text -> text != '', [
        'nothing used',
        if(min(is_confirmed), 'confirmed by the driver', ''),
        if(min(no_engine_active), 'no engine active', ''),
        if(min(is_power_flat), 'power flat', '')]), ', ') AS signals
FROM one_device
GROUP BY cluster, allocation_id
