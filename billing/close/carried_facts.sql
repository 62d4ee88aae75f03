-- One row: the fingerprint of what was done to the tables of facts besides writing to them: rows that were
-- deleted or changed by hand, tables that took their places.
SELECT
    (
        SELECT sum(cityHash64(table, mutation_id, command))
        FROM system.mutations
        WHERE database = currentDatabase() AND table IN ('events', 'devices', 'samples', 'touched_hours', 'ingest_batches', 'recent_batches')
    )
    + (
        SELECT sum(cityHash64(name, toString(uuid), engine))
        FROM system.tables
        WHERE database = currentDatabase() AND name IN ('events', 'devices')
    ) AS facts
