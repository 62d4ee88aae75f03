-- One row: a model's idle power during [from_ms, to_ms); without a row it is not known.
CREATE TABLE {idle_power:Identifier}
(
    model      LowCardinality(String),
    from_ms    Int64,
    to_ms      Int64,
    microwatts Int64
)
ENGINE = Memory
