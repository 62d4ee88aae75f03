-- One row: a month of allocations (by their end; 0: still held), and whether it contains any that the close examines.
CREATE TABLE {months:Identifier} ENGINE = Memory AS
SELECT _partition_id AS month, max(allocation_hash IN {alive:Identifier}) AS is_touched
FROM allocations
GROUP BY month
