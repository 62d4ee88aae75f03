-- The allocations that a close examines: hashes of cluster and allocation_id.
CREATE TABLE {alive:Identifier} (allocation UInt64) ENGINE = Set SETTINGS persistent = 0
