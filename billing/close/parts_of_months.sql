-- One row: a month of allocations, and the fingerprint of its parts, which changes with any row or part.
-- Params:  table: its name.
SELECT partition_id AS month, sum(cityHash64(hash_of_all_files)) AS parts
FROM system.parts
WHERE active AND database = currentDatabase() AND table = {table:String}
GROUP BY month
