-- One row: for how much of (since, until] interference is known.
-- hours: that were measured at all; version: of what they hold; windows: of workloads beside others; known: windows with a known
-- result; newest: (identity, the workload of it that was measured last).
-- Parameters: since, until DateTime64(3) (UTC)
SELECT
    (
        SELECT (count(), groupBitXor(cityHash64(hour, newest_run)))
        FROM
        (
            SELECT hour, max(run) AS newest_run FROM interference_hours
            WHERE hour > {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3,'UTC')}
            GROUP BY hour
        )
    ) AS measured,
    measured.1 AS hours,
    measured.2 AS version,
    sum(i.windows) AS windows,
    sum(i.known) AS known,
    groupArrayIf((toString(identity), workload_id), identity != '') AS newest
FROM
(
    SELECT
        identity, argMax(workload_id, at) AS workload_id,
        countIf(state = 'shared') AS windows, countIf(state = 'shared' AND disturbed IS NOT NULL) AS known
    FROM interference
    WHERE at > toDateTime({since:DateTime64(3,'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3,'UTC')}, 'UTC')
        AND hour > {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3,'UTC')}
    GROUP BY identity
) AS i
