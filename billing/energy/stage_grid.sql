-- One row: what the grid of a place is like in an hour (since the epoch); figures x 1e9, null = not known.
CREATE TABLE {grid:Identifier}
(
    epoch_hour    UInt32,
    place_cluster LowCardinality(String),
    place_pool    LowCardinality(String),
    grams_nano    Nullable(Int64),
    pue_nano      Nullable(Int64)
)
ENGINE = Memory
