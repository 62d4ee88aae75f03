-- Copies what allocations held that nobody has to look at again, as it was published.
INSERT INTO {new:Identifier}
SELECT *
FROM allocations
WHERE cityHash64(toString(cluster), allocation_id) NOT IN {alive:Identifier}
