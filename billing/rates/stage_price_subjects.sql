-- One row: a subject and the schedule of prices that it shares with others whom the same rules fit.
CREATE TABLE {price_subjects:Identifier}
(
    number            UInt64,
    model             LowCardinality(String),
    pool              LowCardinality(String),
    cluster           LowCardinality(String),
    partition_profile LowCardinality(String),
    tenant            LowCardinality(String),
    queue             LowCardinality(String),
    priority_level    UInt16,
    preemptible       UInt8,
    schedule          UInt32
)
ENGINE = Memory
