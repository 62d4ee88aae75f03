-- One row: an identity that was disturbed, and its jitter: how much longer its tail is beside others than alone.
-- Units:   jitter: P99/P50 shared by P99/P50 alone: the median of the windows whose requests say it, else of its windows; null: too
--          few say it.
-- Params:  (since, until]; least_observations.
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
