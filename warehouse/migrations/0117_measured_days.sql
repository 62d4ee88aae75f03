-- The sums of days hold what pages read of them, as dashboards/ledger.sql computes it of an hour: pages add up columns, and
-- need not divide and multiply decimals of every row again.

ALTER TABLE ledger_days
    ADD COLUMN IF NOT EXISTS used Float64 MATERIALIZED toFloat64(used_unit_ms) / (device_units * 3600000)
        COMMENT 'GPU-hours, as the next ones' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS idle Float64 MATERIALIZED toFloat64(idle_unit_ms) / (device_units * 3600000) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS unmetered Float64 MATERIALIZED unmetered_unit_ms / (device_units * 3600000) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS unallocated Float64 MATERIALIZED unallocated_unit_ms / (device_units * 3600000) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS unavailable Float64 MATERIALIZED unavailable_unit_ms / (device_units * 3600000) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS price Nullable(Float64) MATERIALIZED toFloat64(list_unit_price)
        COMMENT 'per GPU-hour; null: unknown' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS list_cost Nullable(Decimal(38, 15)) MATERIALIZED
        toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * list_unit_price / (device_units * 3600000)
        COMMENT 'of what is held; null: no price' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS billed_cost Nullable(Decimal(38, 15)) MATERIALIZED
        toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * contracted_unit_price / (device_units * 3600000)
        COMMENT 'of what is held; null: no price' CODEC(ZSTD(1));

ALTER TABLE ledger_days
    MATERIALIZE COLUMN used, MATERIALIZE COLUMN idle, MATERIALIZE COLUMN unmetered, MATERIALIZE COLUMN unallocated,
    MATERIALIZE COLUMN unavailable, MATERIALIZE COLUMN price, MATERIALIZE COLUMN list_cost, MATERIALIZE COLUMN billed_cost;
