-- One row: a queue, and how fast it uses up what its waiting-time objective allows.
-- Units:   value: burn rate: 1 uses exactly what {objective} allows; the lesser of the long and the short window's, so
--          that it ends soon after the trouble. Null: fewer than {least} waits in the long window.
-- Shape:   a wait counts when it ends, or as bad when it passes the bound. Rejected and cancelled ones do not count.
-- Params:  at; bound_seconds; objective = part of waits within it; long_seconds, short_seconds; least.
WITH waits AS
(
    SELECT
        cluster, argMin(e.queue, ts) AS in_queue,
        minIfOrNull(ts, event = 'submitted') AS submitted_at,
        minIfOrNull(ts, event = 'started') AS started_at,
        minIfOrNull(ts, event IN ('rejected', 'cancelled', 'failed')) AS over_at,
        submitted_at + toIntervalSecond({bound_seconds:UInt32}) AS bound_at,
        least(ifNull(started_at, bound_at), bound_at) AS counts_at,
        ifNull(started_at > bound_at, true) AS is_bad
    FROM events AS e
    WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({long_seconds:UInt32} + {bound_seconds:UInt32})
    GROUP BY cluster, allocation_id
    HAVING submitted_at IS NOT NULL AND counts_at <= {at:DateTime64(3, 'UTC')} AND counts_at > {at:DateTime64(3, 'UTC')} - toIntervalSecond({long_seconds:UInt32})
        AND (over_at IS NULL OR over_at > counts_at OR started_at IS NOT NULL)
)
SELECT
    cluster, in_queue AS queue,
    count() AS waits,
    countIf(is_bad) AS late,
    countIf(counts_at > {at:DateTime64(3, 'UTC')} - toIntervalSecond({short_seconds:UInt32})) AS waits_lately,
    late / waits / (1 - {objective:Float64}) AS long_burn,
    if(waits_lately = 0, 0, countIf(is_bad AND counts_at > {at:DateTime64(3, 'UTC')} - toIntervalSecond({short_seconds:UInt32})) / waits_lately / (1 - {objective:Float64})) AS short_burn,
    if(waits >= {least:UInt32}, least(long_burn, short_burn), NULL) AS value,
    {bound_seconds:UInt32} AS bound_seconds,
    {objective:Float64} AS objective
FROM waits
GROUP BY cluster, queue
