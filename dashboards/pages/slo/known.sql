-- One row: for how much of (since, until] interference is known.
-- windows: of workloads beside others; known: windows with a known result; newest: (identity, the workload of it that was
-- measured last).
-- Parameters: since, until DateTime64(3) (UTC)
SELECT
    sum(i.windows) AS windows, sum(i.known) AS known,
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
