-- One row: the fingerprint of what was done to the tables of facts besides writing to them: rows that were
-- deleted or changed by hand, tables that took their places.
-- $$mutations: those of the engine's tables, of all shards.   Params:  database; tables: with the rows of facts.
SELECT
    (
        SELECT sum(cityHash64(table, mutation_id, command))
        FROM $mutations
        WHERE database = {database:String} AND has({tables:Array(String)}, table)
    )
    + (
        SELECT sum(cityHash64(name, toString(uuid), engine))
        FROM system.tables
        WHERE database = currentDatabase() AND name IN ('events', 'devices')
    ) AS facts
