-- One row: an identity that was disturbed, with what that cost it; the most GPU time lost first.
-- Units:   episodes: of its workloads; mean_slowdown: of the disturbed windows that were measured, weighted by windows;
--          lost_gpu_seconds: null if none was measured; jitter: median of the windows that have one.
-- Params:  (since, until].
SELECT
    e.cluster AS cluster, e.identity AS identity, any(e.tenant) AS tenant,
    count() AS episodes,
    countIf(e.ended_at IS NULL) AS open_episodes,
    sum(e.disturbed_windows) AS disturbed_windows,
    sum(e.mean_slowdown * e.disturbed_windows) / nullIf(sumIf(e.disturbed_windows, e.mean_slowdown IS NOT NULL), 0) AS mean_slowdown,
    max(e.max_slowdown) AS max_slowdown,
    sum(e.lost_gpu_seconds) AS lost_gpu_seconds,
    any(j.jitter) AS jitter,
    toString(min(e.grade)) AS grade,
    arraySort(groupUniqArrayArray(e.channels)) AS channels,
    arraySort(groupUniqArrayArray(e.neighbour_identities)) AS neighbours
FROM interference_episodes(since = {since:DateTime64(3, 'UTC')}, until = {until:DateTime64(3, 'UTC')}) AS e
LEFT JOIN
(
    SELECT
        cluster, identity,
        if(countIf(reported > 0) > 0, quantileExactIf(0.5)(reported, reported > 0), NULL) AS by_requests,
        quantilesExactIf(0.5, 0.99)(seconds, state = 'exclusive') AS alone,
        quantilesExactIf(0.5, 0.99)(seconds, state = 'shared') AS shared,
        multiIf(
            by_requests IS NOT NULL, by_requests,
            least(countIf(state = 'exclusive'), countIf(state = 'shared')) >= {least_observations:UInt32},
                (shared[2] / shared[1]) / (alone[2] / alone[1]),
            NULL) AS jitter
    FROM
    (
        SELECT
            cluster, identity, state, i.jitter AS reported,
            if(metric IN ('training_steps_per_second', 'training_samples_per_second'), 1 / value, value) AS seconds
        FROM interference AS i
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
            AND hour > {since:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3, 'UTC')}
            AND value > 0
            AND (cluster, identity) IN
            (
                SELECT cluster, identity
                FROM interference_samples
                WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
                    AND hour > {since:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3, 'UTC')}
                    AND disturbed = true
            )
    )
    GROUP BY cluster, identity
) AS j ON e.cluster = j.cluster AND e.identity = j.identity
GROUP BY cluster, identity
ORDER BY lost_gpu_seconds DESC NULLS LAST, disturbed_windows DESC, cluster, identity
