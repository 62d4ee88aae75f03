-- One row: a simulated fleet that the store holds records of.
SELECT DISTINCT source FROM ingest_batches WHERE startsWith(source, 'simulated fleet, seed ') ORDER BY source
