-- One row: a table that holds rows, and its partitions, each with a number that is another one as soon as its rows are.
SELECT table, groupArray((partition, print)) AS partitions
FROM
(
    SELECT table, partition, groupBitXor(cityHash64(name, hash_of_all_files)) AS print
    FROM system.parts
    WHERE active AND database = currentDatabase()
    GROUP BY table, partition
)
GROUP BY table
