-- One row: the PUE x 1e9 that the rate card states for what a payer holds in a month of the billing zone; null = none.
CREATE TABLE {payers:Identifier}
(
    payer_tenant      LowCardinality(String),
    payer_project     LowCardinality(String),
    payer_queue       LowCardinality(String),
    payer_sku         LowCardinality(String),
    payer_preemptible Bool,
    payer_month       String,
    pue_nano          Nullable(Int64)
)
ENGINE = Memory
