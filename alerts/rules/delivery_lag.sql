-- One row: a node whose samples arrived lately, and how late: a spool that grows while the store is away.
-- Units:   value: seconds by which the newest sample of the node's last arrival was late. So a backlog that has been delivered
--          is not late any more.
-- Shape:   by the clock of arrival; a replay of the past arrives outside of the window. Pushes, and what agents write
--          themselves (their source is CLUSTER/NODE); a file or a Prometheus's history that somebody reads has no spool.
-- Params:  at; window_seconds; reach_seconds = how old samples are looked for.
WITH arrived AS
(
    SELECT batch, any(i.source) AS source, max(i.ingested_at) AS ingested_at FROM ingest_batches AS i
    WHERE record_type = 'samples'
        AND i.ingested_at > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND i.ingested_at <= {at:DateTime64(3, 'UTC')} + INTERVAL 10 MINUTE
    GROUP BY batch
)
SELECT
    s.cluster AS cluster, s.node AS node,
    count() AS samples,
    dateDiff('second', argMax(s.ts, (b.ingested_at, s.ts)), max(b.ingested_at)) AS value,
    max(b.ingested_at) AS last_arrival_at
FROM
(
    SELECT cluster, node, ts, batch
    FROM samples
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({reach_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')}
        AND batch GLOBAL IN (SELECT batch FROM arrived)
) AS s
INNER JOIN arrived AS b ON s.batch = b.batch
WHERE startsWith(b.source, 'push:') OR b.source = concat(s.cluster, '/', s.node)
GROUP BY s.cluster, s.node
