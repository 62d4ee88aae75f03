-- Servers of one store take turns: one at a time writes what was pushed, issues a month or closes.

CREATE TABLE IF NOT EXISTS turns
(
    at     LowCardinality(String) COMMENT 'what it is a turn at',
    holder UUID COMMENT 'names the turn',
    who    String COMMENT 'host and process',
    alone  Bool COMMENT 'nobody else at the same time; else with all others that are not alone',
    seen   DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC'),
    state  Enum8('waits' = 1, 'has' = 2, 'over' = 3)
)
ENGINE = MergeTree
ORDER BY (at, seen)
TTL toDateTime(seen) + INTERVAL 1 HOUR
COMMENT 'One row: a sign of life of a process that waits for a turn or has it, or the turn''s end. The clock is the store''s. Source: the servers of one store.';
