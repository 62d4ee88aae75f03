-- What usage of a tenant's project, sku and price becomes on its invoice: which rows are exported, and what
-- reductions left of their cost.
CREATE TABLE {groups:Identifier}
(
    tenant                LowCardinality(String),
    project               LowCardinality(String),
    sku                   LowCardinality(String),
    list_unit_price       Decimal(18, 9),
    contracted_unit_price Decimal(18, 9),
    invoice_id            LowCardinality(Nullable(String)),
    issuer                LowCardinality(String),
    rate_card             LowCardinality(String),
    billed_part           Nullable(Decimal(38, 30)) COMMENT 'of the contracted cost; null: all of it',
    effective_part        Nullable(Decimal(38, 30)) COMMENT 'likewise, with what commitments cost'
)
ENGINE = Memory
