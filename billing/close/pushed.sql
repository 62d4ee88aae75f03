-- One row: a pushed batch that no close has read. Accepted rows of a held push do not count: they have been decided on.
SELECT batch, any(sender) AS sender
FROM ingest_batches
WHERE batch IN (SELECT batch FROM {fresh:Identifier}) AND startsWith(source, 'push:')
GROUP BY batch
ORDER BY batch
