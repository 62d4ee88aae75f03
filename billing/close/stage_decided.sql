-- The disputed claims as decided; told_as = the claim in the staged claims, which one on a node may share.
CREATE TABLE {decided:Identifier}
(
    told_as   UInt64,
    claim     UInt64,
    device_id LowCardinality(String),
    units     UInt32,
    end_ms    Int64,
    estimated LowCardinality(String)
)
ENGINE = Memory
