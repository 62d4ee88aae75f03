-- One row: a month of allocations (by their end; 0: still held), and whether any of those to look at is in it.
CREATE TABLE {months:Identifier} ENGINE = Memory AS
SELECT _partition_id AS month, max(allocation_hash IN {alive:Identifier}) AS is_touched
FROM allocations
GROUP BY month
