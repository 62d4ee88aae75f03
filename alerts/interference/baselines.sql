-- Adds baselines: what an identity does alone, from its exclusive windows of the history, those of this run and earlier ones.
-- Shape:   of keys that have an exclusive window in this run; no row with fewer than least_windows.
-- Params:  scratch: the windows of this run; run; until; history_seconds; least_windows; since: of this run.
INSERT INTO interference_baselines
SELECT
    {run:UInt64} AS run,
    cluster, identity, version, model, partition_profile, metric, load,
    count() AS windows,
    min(e.at) AS since,
    max(e.at) AS until,
    if(countIf(e.value > 0) = 0, NULL, quantileExactIf(0.5)(e.value, e.value > 0)) AS value,
    if(countIf(e.value > 0) = 0, NULL, quantileExactIf(0.05)(e.value, e.value > 0)) AS value_low,
    if(countIf(e.value > 0) = 0, NULL, quantileExactIf(0.95)(e.value, e.value > 0)) AS value_high,
    multiIf(
        countIf(e.p99_to_p50 > 0) > 0, quantileExactIf(0.5)(e.p99_to_p50, e.p99_to_p50 > 0),
        NULL) AS p99_to_p50,
    avg(e.utilization) AS utilization,
    avg(e.dram_active) AS dram_active,
    avg(e.context_switch_active) AS context_switch_active,
    avg(e.context_switch_requests_per_second) AS context_switch_requests_per_second,
    avg(e.sm_clock_hertz) AS sm_clock_hertz,
    avg(e.pcie_bytes_per_second) AS pcie_bytes_per_second
FROM
(
    SELECT cluster, identity, version, model, partition_profile, metric, load, at, value, p99_to_p50, utilization, dram_active,
        context_switch_active, context_switch_requests_per_second, sm_clock_hertz, pcie_bytes_per_second
    FROM {scratch:Identifier}
    WHERE state = 'exclusive'
    UNION ALL
    SELECT cluster, identity, version, model, partition_profile, metric, load, at, value, p99_to_p50, utilization, dram_active,
        context_switch_active, context_switch_requests_per_second, sm_clock_hertz, pcie_bytes_per_second
    FROM interference
    WHERE state = 'exclusive' AND at > {until:DateTime64(3, 'UTC')} - toIntervalSecond({history_seconds:UInt32})
        AND (at <= toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') OR at > toDateTime({until:DateTime64(3, 'UTC')}, 'UTC'))
) AS e
WHERE (cluster, identity, version, model, partition_profile, metric, load) IN
(
    SELECT cluster, identity, version, model, partition_profile, metric, load FROM {scratch:Identifier} WHERE state = 'exclusive'
)
GROUP BY cluster, identity, version, model, partition_profile, metric, load
HAVING windows >= {least_windows:UInt32}
