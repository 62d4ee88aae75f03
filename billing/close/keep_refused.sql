-- Copies the published refusals of allocations that are not examined.
INSERT INTO {new:Identifier}
SELECT *
FROM refused_claims
WHERE cityHash64(toString(cluster), allocation_id) NOT IN {alive:Identifier}
