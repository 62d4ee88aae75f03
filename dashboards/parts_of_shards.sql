-- One row: a table that is spread over shards, by the name that stands for all of them; columns as in parts_in_force.sql.
-- $$parts: those of the engine's tables, of all shards.   Params:  database; suffix: of the names that it has on shards.
SELECT replaceOne(table, {suffix:String}, '') AS table, groupArray((partition, print)) AS partitions
FROM
(
    SELECT table, partition, groupBitXor(cityHash64(_shard_num, name, hash_of_all_files)) AS print
    FROM $parts
    WHERE active AND database = {database:String} AND endsWith(table, {suffix:String})
    GROUP BY table, partition
)
GROUP BY table
