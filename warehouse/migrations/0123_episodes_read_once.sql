-- Episodes are found in one reading of the windows of workloads that anything disturbed, by their hours, which are in the order
-- of the table: the engine had read all windows twice, of all times, and planned that twice.

-- One row: a stretch in which a workload was disturbed: raised by 3 of 5 windows, over after 10 quiet minutes.
-- Units:   slowdown: of the disturbed windows that were measured; lost_gpu_seconds: GPUs x time x (1 - 1/S) of them.
-- Shape:   ended_at: ten quiet minutes after the last disturbed window, null until then. Quiet is what is known not to be
--          disturbed; what is not known neither raises nor clears. grade: the best of its windows.
-- Params:  since, until: windows that end in (since, until].
CREATE OR REPLACE VIEW interference_episodes AS
WITH
    judged AS
    (
        SELECT
            cluster, workload_id, service, tenant, identity, at, window_seconds, gpus, slowdown, channels, grade, neighbours,
            neighbour_identities,
            disturbed = true AS is_disturbed,
            sum(toUInt8(is_disturbed)) OVER (PARTITION BY cluster, workload_id, service ORDER BY toUnixTimestamp(at)
                RANGE BETWEEN 299 PRECEDING AND CURRENT ROW) AS recent,
            sum(if(disturbed = false, window_seconds, 0)) OVER (PARTITION BY cluster, workload_id, service ORDER BY at
                ROWS UNBOUNDED PRECEDING) AS quiet_seconds
        FROM interference
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
            AND hour > {since:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3, 'UTC')}
            AND disturbed IS NOT NULL
            AND (cluster, workload_id, service) IN
            (
                SELECT cluster, workload_id, service
                FROM interference_samples
                WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC')
                    AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
                    AND hour > {since:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3, 'UTC')}
                    AND disturbed = true
            )
    ),
    stretch AS
    (
        SELECT
            *,
            sum(toUInt8(is_disturbed AND is_calm)) OVER (PARTITION BY cluster, workload_id, service ORDER BY at
                ROWS UNBOUNDED PRECEDING) AS number
        FROM
        (
            SELECT
                *,
                quiet_seconds - max(if(is_disturbed, quiet_seconds, 0)) OVER (PARTITION BY cluster, workload_id, service
                    ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) >= 600 AS is_calm
            FROM judged
        )
    )
SELECT
    s.cluster AS cluster, s.workload_id AS workload_id, s.service AS service,
    anyIf(s.tenant, is_disturbed) AS tenant, anyIf(s.identity, is_disturbed) AS identity,
    minIf(s.at, is_disturbed) - anyIf(s.window_seconds, is_disturbed) AS started_at,
    min(if(is_disturbed AND s.recent >= 3, s.at, toDateTime('2100-01-01', 'UTC'))) AS raised_at,
    maxIf(s.at, is_disturbed) AS disturbed_until,
    minOrNullIf(s.at, is_calm AND NOT is_disturbed) AS ended_at,
    countIf(is_disturbed) AS disturbed_windows,
    avg(if(is_disturbed, s.slowdown, NULL)) AS mean_slowdown,
    max(if(is_disturbed, s.slowdown, NULL)) AS max_slowdown,
    sum(if(is_disturbed AND s.slowdown > 1, s.gpus * s.window_seconds * (1 - 1 / s.slowdown), NULL)) AS lost_gpu_seconds,
    minIf(s.grade, is_disturbed) AS grade,
    arraySort(groupUniqArrayArrayIf(s.channels, is_disturbed)) AS channels,
    arraySort(groupUniqArrayArrayIf(s.neighbours, is_disturbed)) AS neighbours,
    arraySort(groupUniqArrayArrayIf(s.neighbour_identities, is_disturbed)) AS neighbour_identities
FROM stretch AS s
GROUP BY s.cluster, s.workload_id, s.service, s.number
HAVING maxIf(s.recent, is_disturbed) >= 3;
