-- One row: a pushed batch among those that no close has read. What somebody said yes to comes from a held push.
SELECT batch, any(sender) AS sender
FROM ingest_batches
WHERE batch IN (SELECT batch FROM {fresh:Identifier}) AND startsWith(source, 'push:')
GROUP BY batch
ORDER BY batch
