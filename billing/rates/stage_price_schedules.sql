-- One row: a price of a schedule during [from_ms, to_ms); position = its place there.
CREATE TABLE {price_schedules:Identifier}
(
    schedule              UInt32,
    position              UInt32,
    from_ms               Int64,
    to_ms                 Int64,
    sku                   LowCardinality(String),
    list_unit_price       Decimal(18, 9),
    contracted_unit_price Decimal(18, 9),
    currency              LowCardinality(String)
)
ENGINE = Memory
