-- Copies what allocations held that nobody has to look at again, as it was published, of months in which others are.
INSERT INTO {new:Identifier}
SELECT *
FROM allocations
WHERE _partition_id IN {touched:Array(String)} AND allocation_hash NOT IN {alive:Identifier}
