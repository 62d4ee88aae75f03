-- One row: a workload in one window, with its reported performance, its neighbours, and the signals of its devices.
-- Shape:   a workload with several services (models of one server) has a row for each. state: exclusive if nobody else had
--          processes on any of its devices, shared if somebody had, unsure if somebody held a share without reporting
--          processes, or an unknown process was active. Of devices that cannot be shared, only workloads that report their
--          performance, or are not alone there. Signals are those of its busiest device. A MIG instance whose samples
--          name nobody speaks for the one workload that holds it: it has processes if it was used at all.
-- Params:  scratch: the table to make; (since, until]; the settings (alerts/interference/settings.py).
-- Reads:   metrics and service levels of the span once, samples twice (of instances alone), allocations that touch it.
CREATE TABLE {scratch:Identifier} ENGINE = Memory AS
WITH
    toInt64({window_seconds:UInt32}) * 1000 AS window_ms,
    toUInt32(intDiv(toUnixTimestamp64Milli({since:DateTime64(3, 'UTC')}), window_ms)) AS before_first,
    toUInt32(intDiv(toUnixTimestamp64Milli({until:DateTime64(3, 'UTC')}), window_ms)) AS last_window,
    slices AS
    (
        SELECT cluster, device_id, partition_id, window, any(workload_id) AS holder
        FROM
        (
            SELECT
                cluster, device_id, partition_id, workload_id,
                arrayJoin(range(
                    toUInt32(greatest(before_first + 1, intDiv(toUnixTimestamp64Milli(start_at), window_ms) + 1)),
                    toUInt32(least(last_window, if(end_at IS NULL, last_window,
                        intDiv(toUnixTimestamp64Milli(assumeNotNull(end_at)) - 1, window_ms) + 1))) + 1)) AS window
            FROM allocations
            WHERE workload_id != '' AND partition_id != '' AND partition_profile != ''
                AND start_at < {until:DateTime64(3, 'UTC')} AND (end_at IS NULL OR end_at > {since:DateTime64(3, 'UTC')})
        )
        GROUP BY cluster, device_id, partition_id, window
        HAVING uniqExact(workload_id) = 1
    ),
    found AS
    (
        SELECT
            cluster, device_id, workload_id, window,
            max(bearing) AS has_processes,
            maxIf(partition_profile, partition_profile != '') AS profile,
            maxIf(holder, holder != '') AS tenant,
            avg(used) AS utilization,
            max(share) AS held
        FROM
        (
            SELECT
                cluster, device_id, workload_id,
                toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, window_ms) + 1) AS window,
                toNullable(toUInt8(ifNull(memory_used_bytes, 0) > 0 OR ifNull(utilization, 0) > 0)) AS bearing,
                '' AS partition_profile, '' AS holder, utilization AS used, CAST(NULL AS Nullable(Float64)) AS share
            FROM samples
            WHERE workload_id != '' AND state <= 'idle'
                AND ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')}
            UNION ALL
            SELECT
                cluster, device_id, workload_id,
                toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, window_ms) + 1),
                toNullable(toUInt8(value > 0)), '', '', if(metric = 'process_activity', value, NULL), NULL
            FROM metrics
            WHERE workload_id != '' AND state <= 'idle' AND metric IN ('process_activity', 'memory_used_bytes')
                AND ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')}
            UNION ALL
            SELECT
                s.cluster, s.device_id, p.holder, s.window, toNullable(toUInt8(s.utilization > 0)), '', '', s.utilization, NULL
            FROM
            (
                SELECT
                    cluster, device_id, partition_id, utilization,
                    toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, window_ms) + 1) AS window
                FROM samples
                WHERE workload_id = '' AND partition_id != '' AND state <= 'idle' AND utilization IS NOT NULL
                    AND ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')}
            ) AS s
            INNER JOIN slices AS p
                ON s.cluster = p.cluster AND s.device_id = p.device_id AND s.partition_id = p.partition_id AND s.window = p.window
            UNION ALL
            SELECT
                a.cluster, a.device_id, a.workload_id,
                arrayJoin(range(
                    toUInt32(greatest(before_first + 1, intDiv(toUnixTimestamp64Milli(a.start_at), window_ms) + 1)),
                    toUInt32(least(last_window, if(a.end_at IS NULL, last_window,
                        intDiv(toUnixTimestamp64Milli(assumeNotNull(a.end_at)) - 1, window_ms) + 1))) + 1)),
                NULL, a.partition_profile, if(a.reported_tenant != '', a.reported_tenant, a.tenant), NULL,
                toNullable(a.units / greatest(1, d.units))
            FROM allocations AS a
            ASOF LEFT JOIN (SELECT cluster, device_id, ts, max((state, devices.units)).2 AS units FROM devices GROUP BY cluster, device_id, ts) AS d
                ON a.cluster = d.cluster AND a.device_id = d.device_id AND a.start_at >= d.ts
            WHERE a.workload_id != '' AND a.start_at < {until:DateTime64(3, 'UTC')}
                AND (a.end_at IS NULL OR a.end_at > {since:DateTime64(3, 'UTC')})
        )
        GROUP BY cluster, device_id, workload_id, window
    ),
    signals AS
    (
        SELECT
            cluster, device_id, window,
            avgIf(value, metric = 'sm_active') AS busy,
            avgIf(value, metric = 'dram_active') AS dram_active,
            avgIf(value, metric = 'context_switch_active') AS context_switch_active,
            avgIf(value, metric = 'context_switch_requests_per_second') AS context_switch_requests_per_second,
            avgIf(value, metric = 'sm_clock_hertz') AS sm_clock_hertz,
            sumIf(value, metric IN ('throttle_power_seconds', 'throttle_thermal_seconds')) AS throttle_seconds,
            greatest(avgIf(value, metric = 'pcie_transmit_bytes_per_second'), avgIf(value, metric = 'pcie_receive_bytes_per_second'))
                AS pcie_bytes_per_second,
            maxIf(value, metric = 'unattributed_activity') AS unattributed
        FROM
        (
            SELECT cluster, device_id, toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, window_ms) + 1) AS window, metric,
                if(state <= 'idle', value, NULL) AS value
            FROM metrics
            WHERE workload_id = '' AND ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')}
                AND metric IN ('sm_active', 'dram_active', 'context_switch_active', 'context_switch_requests_per_second',
                    'sm_clock_hertz', 'throttle_power_seconds', 'throttle_thermal_seconds',
                    'pcie_transmit_bytes_per_second', 'pcie_receive_bytes_per_second', 'unattributed_activity')
            UNION ALL
            SELECT cluster, device_id, toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, window_ms) + 1),
                reported.1, toNullable(toFloat64(reported.2))
            FROM samples
            ARRAY JOIN [('sm_active', sm_active), ('dram_active', dram_active)] AS reported
            WHERE workload_id = '' AND partition_id = '' AND state <= 'idle' AND reported.2 IS NOT NULL
                AND ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')}
        )
        GROUP BY cluster, device_id, window
    ),
    placed AS
    (
        SELECT
            c.cluster AS cluster, c.device_id AS device_id, c.window AS window,
            arrayJoin(c.members) AS self,
            arrayFilter(other -> other.1 != self.1 AND other.2 = 1, c.members).1 AS others,
            arrayExists(other -> other.1 != self.1 AND other.2 IS NULL, c.members) AS others_unsure,
            c.utilization_sum AS utilization_sum,
            s.*
        FROM
        (
            SELECT
                cluster, device_id, window,
                groupArray((workload_id, has_processes, profile, tenant, utilization, held)) AS members,
                sum(if(profile != '', utilization * ifNull(held, 1), utilization)) AS utilization_sum
            FROM found
            GROUP BY cluster, device_id, window
        ) AS c
        LEFT JOIN (SELECT * EXCEPT (cluster, device_id, window), cluster AS c1, device_id AS d1, window AS w1 FROM signals) AS s
            ON c.cluster = s.c1 AND c.device_id = s.d1 AND c.window = s.w1
    ),
    kind AS
    (
        SELECT cluster, device_id, argMax(model, (ts, state, units, model)) AS model, max(units) AS most_units
        FROM devices GROUP BY cluster, device_id
    ),
    there AS
    (
        SELECT
            p.cluster AS cluster, p.self.1 AS workload_id, p.window AS window,
            arraySort(groupUniqArray(p.device_id)) AS device_ids,
            sum(ifNull(p.self.6, 1)) AS gpus,
            max(k.model) AS model, max(p.self.3) AS profile, max(p.self.4) AS tenant,
            max(k.most_units) AS most_units,
            arraySort(groupUniqArrayArray(p.others)) AS neighbours,
            max(p.others_unsure OR ifNull(p.unattributed > {stranger:Float64}, false)) AS is_unsure,
            avg(p.self.5) AS utilization,
            max(p.busy) AS busy, max(p.utilization_sum) AS utilization_sum, max(p.dram_active) AS dram_active, max(p.context_switch_active) AS context_switch_active,
            max(p.context_switch_requests_per_second) AS context_switch_requests_per_second,
            min(p.sm_clock_hertz) AS sm_clock_hertz, max(p.throttle_seconds) AS throttle_seconds,
            max(p.pcie_bytes_per_second) AS pcie_bytes_per_second
        FROM placed AS p
        LEFT JOIN kind AS k ON p.cluster = k.cluster AND p.device_id = k.device_id
        WHERE ifNull(p.self.2, 1) = 1
        GROUP BY cluster, workload_id, window
    ),
    reported AS
    (
        SELECT
            cluster, workload_id, service, window,
            maxIf(tenant, tenant != '') AS tenant,
            avgWeightedIf(value, weight, metric = 'inter_token_latency_seconds' AND quantile IS NULL) AS token_seconds,
            avgWeightedIf(value, weight, metric = 'compute_seconds' AND quantile IS NULL) AS compute_seconds,
            avgIf(value, metric = 'training_steps_per_second') AS steps,
            avgIf(value, metric = 'training_samples_per_second') AS samples_rate,
            avgWeightedIf(value, weight, metric = 'request_latency_seconds' AND quantile IS NULL) AS request_seconds,
            avgWeightedIf(value, weight, metric = 'request_queue_seconds' AND quantile IS NULL) AS queue_seconds,
            multiIf(
                token_seconds > 0, ('inter_token_latency_seconds', token_seconds),
                compute_seconds > 0, ('compute_seconds', compute_seconds),
                steps > 0, ('training_steps_per_second', steps),
                samples_rate > 0, ('training_samples_per_second', samples_rate),
                request_seconds > queue_seconds, ('request_latency_seconds', request_seconds - queue_seconds),
                ('', nan)) AS primary,
            primary.1 AS metric_reported,
            argMaxIf((metric, value), observations, quantile = 0.99 AND observations >= 300 AND metric IN ('inter_token_latency_seconds', 'request_latency_seconds')) AS p99,
            argMaxIf((metric, value), observations, quantile = 0.5 AND observations >= 300 AND metric IN ('inter_token_latency_seconds', 'request_latency_seconds')) AS p50,
            avgIf(value, metric = 'requests_running') AS running,
            avgIf(value, metric = 'requests_waiting') AS waiting,
            avgIf(value, metric = 'prompt_tokens_per_second') AS tokens,
            avgIf(value, metric = 'requests_per_second') AS requests
        FROM
        (
            SELECT
                cluster, workload_id, service, tenant, metric, quantile, value, observations,
                toFloat64(greatest(1, ifNull(observations, 1))) AS weight,  -- the engine averages in the weight's type
                arrayJoin(arrayMap(back -> toUInt32(ends - back), range(toUInt32(greatest(1, round(interval_seconds / {window_seconds:UInt32})))))) AS window
            FROM
            (
                SELECT *, toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, window_ms) + 1) AS ends
                FROM service_levels
                WHERE workload_id != '' AND value IS NOT NULL AND interval_seconds <= 3600
                    AND ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
            )
        )
        WHERE window > before_first AND window <= last_window
        GROUP BY cluster, workload_id, service, window
    )
SELECT
    arrayFilter(v -> v.1 IN ('', t.cluster) AND v.2 IN ('', identity) AND v.3 < at,
        (SELECT arraySort(v -> v.3, groupArray((toString(cluster), toString(identity), toDateTime(since, 'UTC'), version))) FROM interference_versions FINAL)) AS declared,
    toDateTime(t.window * {window_seconds:UInt32}, 'UTC') AS at,
    toStartOfHour(at - 1) AS hour,
    t.cluster AS cluster, t.workload_id AS workload_id, p.service AS service,
    if(t.tenant != '', t.tenant, p.tenant) AS tenant,
    if(p.service = '' OR arrayExists(own -> match(p.service, own), {own_services:Array(String)}), t.workload_id, p.service) AS identity,
    concat(
        arrayLast(v -> v.2 = identity, declared).4,
        if(arrayLast(v -> v.2 = '', declared).4 = '', '', concat('/', arrayLast(v -> v.2 = '', declared).4))) AS version,
    t.device_ids AS device_ids, t.gpus AS gpus, t.model AS model, t.profile AS partition_profile,
    multiIf(notEmpty(t.neighbours), 'shared', t.is_unsure, 'unsure', 'exclusive') AS state,
    t.neighbours AS neighbours,
    p.metric_reported AS metric,
    concat(
        if(p.running IS NULL OR isNaN(p.running), '', concat('r', toString(floor(log2(p.running + 1))))),
        if(p.requests > 0 AND p.tokens > 0, concat('t', toString(floor(log2(p.tokens / p.requests)))), '')) AS load,
    if(p.metric_reported = '', NULL, toNullable(p.primary.2)) AS value,
    if(p.p99.1 = p.metric_reported AND p.p50.1 = p.metric_reported AND p.p50.2 > 0, p.p99.2 / p.p50.2, NULL) AS p99_to_p50,
    t.utilization AS utilization,
    ifNull(p.running > 0, false) OR ifNull(p.waiting > 0, false) OR p.metric_reported != '' AS has_demand,
    t.busy AS busy, t.utilization_sum AS utilization_sum, t.dram_active AS dram_active, t.context_switch_active AS context_switch_active,
    t.context_switch_requests_per_second AS context_switch_requests_per_second, t.sm_clock_hertz AS sm_clock_hertz,
    t.throttle_seconds AS throttle_seconds, t.pcie_bytes_per_second AS pcie_bytes_per_second
FROM there AS t
LEFT JOIN reported AS p ON t.cluster = p.cluster AND t.workload_id = p.workload_id AND t.window = p.window
WHERE t.window > before_first AND t.window <= last_window
    AND (p.metric_reported != '' OR t.most_units > 1 OR notEmpty(t.neighbours))
