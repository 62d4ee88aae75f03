-- Copies the published rows of unchanged allocations, in months that also have changed ones.
INSERT INTO {new:Identifier}
SELECT *
FROM allocations
WHERE _partition_id IN {touched:Array(String)} AND allocation_hash NOT IN {alive:Identifier}
