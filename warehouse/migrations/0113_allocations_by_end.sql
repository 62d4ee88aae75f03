-- Allocations by the month of their end: a close takes over the months in which nothing changed as they are, without
-- reading them (billing/close/published.py). Events and allocations say by a number of what allocation they are: a close
-- looks through all of them for a few.

ALTER TABLE close_carried
    ADD COLUMN IF NOT EXISTS `months.month` Array(String) COMMENT 'of allocations, by their end' AFTER allocations,
    ADD COLUMN IF NOT EXISTS `months.parts` Array(UInt64) COMMENT 'fingerprint of its parts' AFTER `months.month`,
    ADD COLUMN IF NOT EXISTS `months.fingerprint` Array(UInt64) COMMENT 'of its rows' AFTER `months.parts`;

ALTER TABLE events
    ADD COLUMN IF NOT EXISTS allocation_hash UInt64 MATERIALIZED cityHash64(toString(cluster), allocation_id) CODEC(ZSTD(1));

ALTER TABLE events MATERIALIZE COLUMN allocation_hash;

DROP TABLE IF EXISTS allocations_by_end;

CREATE TABLE allocations_by_end AS allocations
ENGINE = MergeTree
PARTITION BY ifNull(toYYYYMM(end_at), 0)
ORDER BY (cluster, device_id, start_at, claim)
COMMENT 'One row: an allocation held units of a device during [start_at, end_at). Source: close, which rewrites the table.';

ALTER TABLE allocations_by_end
    ADD COLUMN IF NOT EXISTS allocation_hash UInt64 MATERIALIZED cityHash64(toString(cluster), allocation_id);

INSERT INTO allocations_by_end SELECT * FROM allocations SETTINGS max_partitions_per_insert_block = 0;

EXCHANGE TABLES allocations_by_end AND allocations;

DROP TABLE allocations_by_end;
