-- Adds samples: the windows of a run, each against the newest baseline at its load.
-- Shape:   see interference_samples. An exclusive window is never disturbed, whatever its slowdown: that is how far its
--          measure wavers by itself.
-- Params:  scratch; run; until; the settings.
INSERT INTO interference_samples
(
    run, hour, at, window_seconds, cluster, workload_id, service, tenant, identity, version, device_ids, gpus, model,
    partition_profile, state, neighbours, neighbour_identities, metric, load, value, p99_to_p50, utilization, has_demand,
    busy, utilization_sum, dram_active, context_switch_active, context_switch_requests_per_second, sm_clock_hertz,
    throttle_seconds, pcie_bytes_per_second, baseline_value, baseline_windows, slowdown, coefficient, jitter, channels,
    grade, disturbed
)
WITH
    baseline AS
    (
        SELECT *
        FROM interference_baselines FINAL
        WHERE until > toDateTime({until:DateTime64(3, 'UTC')}, 'UTC') - toIntervalSecond({history_seconds:UInt32})
    ),
    named AS
    (
        SELECT cluster AS c1, at AS a1, workload_id AS w1, min(identity) AS known_as
        FROM {scratch:Identifier} GROUP BY cluster, at, workload_id
    ),
    beside AS
    (
        SELECT
            n.cluster AS c1, n.at AS a1, n.workload_id AS w1,
            arraySort(groupUniqArray(if(named.known_as != '', named.known_as, n.neighbour))) AS neighbour_identities
        FROM (SELECT cluster, at, workload_id, arrayJoin(neighbours) AS neighbour FROM {scratch:Identifier}) AS n
        LEFT JOIN named ON n.cluster = named.c1 AND n.at = named.a1 AND n.neighbour = named.w1
        GROUP BY n.cluster, n.at, n.workload_id
    )
SELECT
    {run:UInt64} AS run,
    w.hour, w.at, {window_seconds:UInt32} AS window_seconds, w.cluster, w.workload_id, w.service, w.tenant, w.identity,
    w.version, w.device_ids, w.gpus, w.model, w.partition_profile, w.state AS state, w.neighbours,
    s.neighbour_identities AS neighbour_identities, w.metric, w.load, w.value, w.p99_to_p50, w.utilization, w.has_demand,
    w.busy, w.utilization_sum, w.dram_active, w.context_switch_active, w.context_switch_requests_per_second, w.sm_clock_hertz,
    w.throttle_seconds, w.pcie_bytes_per_second,
    b.value AS baseline_value,
    b.windows AS baseline_windows,
    if(w.value > 0 AND b.value > 0,
        if(w.metric IN ('training_steps_per_second', 'training_samples_per_second'), b.value / w.value, w.value / b.value), NULL) AS slowdown,
    slowdown - 1 AS coefficient,
    w.p99_to_p50 / b.p99_to_p50 AS jitter,
    arrayFilter(name -> name != '', [
        if(ifNull(w.context_switch_active > {switches:Float64} * b.context_switch_active + 0.01, false)
            OR ifNull(w.context_switch_requests_per_second > {switches:Float64} * b.context_switch_requests_per_second + 1, false)
            OR (notEmpty(w.neighbours) AND w.partition_profile = '' AND (ifNull(w.busy >= {busy:Float64}, false) OR ifNull(w.utilization_sum >= {together:Float64}, false))),
            'scheduler', ''),
        if(ifNull(w.dram_active >= {dram:Float64}, false), 'memory', ''),
        if(ifNull(w.sm_clock_hertz <= {clock:Float64} * b.sm_clock_hertz, false)
            AND ifNull(w.throttle_seconds >= {throttled:Float64} * {window_seconds:UInt32}, false), 'clock', ''),
        if(ifNull(w.pcie_bytes_per_second >= {pcie:Float64} * nullIf(arrayFirst(
            pair -> match(w.model, pair.1), arrayZip({link_models:Array(String)}, {link_rates:Array(Float64)})).2, 0), false),
            'pcie', '')]) AS channels,
    multiIf(
        w.state = 'unsure', 'unknown',
        slowdown IS NOT NULL, 'measured',
        w.state = 'exclusive' OR empty(channels), 'unknown',
        ifNull(w.utilization <= {fallen:Float64} * b.utilization, false) AND w.has_demand, 'likely',
        'suspected') AS grade,
    multiIf(
        w.state = 'exclusive', toNullable(false),
        grade = 'unknown', NULL,
        grade = 'measured', slowdown >= {slow_at:Float64},
        true) AS disturbed
FROM {scratch:Identifier} AS w
LEFT JOIN baseline AS b
    ON w.cluster = b.cluster AND w.identity = b.identity AND w.version = b.version AND w.model = b.model
    AND w.partition_profile = b.partition_profile AND w.metric = b.metric AND w.load = b.load
LEFT JOIN beside AS s ON w.cluster = s.c1 AND w.at = s.a1 AND w.workload_id = s.w1
