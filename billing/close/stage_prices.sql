-- One row: what a GPU-hour costs a subject during [from_ms, to_ms); without a row the price is unknown.
CREATE TABLE {prices:Identifier}
(
    model                 LowCardinality(String),
    pool                  LowCardinality(String),
    partition_profile     LowCardinality(String),
    tenant                LowCardinality(String),
    from_ms               Int64,
    to_ms                 Int64,
    price                 UInt64 COMMENT 'from 1',
    subject               UInt64 MATERIALIZED cityHash64(cityHash64(model, pool), cityHash64(partition_profile, tenant)),
    sku                   LowCardinality(String),
    list_unit_price       Decimal(18, 9),
    contracted_unit_price Decimal(18, 9),
    currency              LowCardinality(String)
)
ENGINE = Memory
