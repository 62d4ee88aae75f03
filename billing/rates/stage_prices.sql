-- One row: what a GPU-hour costs a subject during [from_ms, to_ms); without a row the price is unknown.
-- Units:   ms since the epoch; prices per GPU-hour.
-- Shape:   priority_level = 0 where no priority was reported, else 1 + how many bounds of the card's priority classes it
--          reaches; a column that the card does not ask for is empty. payer and subject are what claims and entries
--          are joined by.
CREATE TABLE {prices:Identifier}
(
    model                 LowCardinality(String),
    pool                  LowCardinality(String),
    cluster               LowCardinality(String),
    partition_profile     LowCardinality(String),
    tenant                LowCardinality(String),
    queue                 LowCardinality(String),
    priority_level        UInt16,
    preemptible           UInt8,
    from_ms               Int64,
    to_ms                 Int64,
    price                 UInt64 COMMENT 'from 1',
    payer                 UInt64 MATERIALIZED cityHash64(partition_profile, tenant, queue, priority_level, preemptible),
    subject               UInt64 MATERIALIZED cityHash64(cityHash64(model, pool, cluster), payer),
    sku                   LowCardinality(String),
    list_unit_price       Decimal(18, 9),
    contracted_unit_price Decimal(18, 9),
    currency              LowCardinality(String)
)
ENGINE = Memory
