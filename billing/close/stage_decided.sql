-- The disputed claims as decided; source_claim = the claim in the staged claims, which several may share
-- that one on a node became, each with a device and a time of its own.
CREATE TABLE {decided:Identifier}
(
    source_claim   UInt64,
    claim     UInt64,
    device_id LowCardinality(String),
    units     UInt32,
    start_ms  Int64,
    end_ms    Int64,
    estimated LowCardinality(String)
)
ENGINE = Memory
