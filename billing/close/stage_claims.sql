-- The claims of one close, while it works.
CREATE TABLE {claims:Identifier}
(
    claim                 UInt64,
    cluster               LowCardinality(String),
    source                LowCardinality(String),
    allocation_id         String,
    workload_id           String,
    tenant                LowCardinality(String),
    project               LowCardinality(String),
    queue                 LowCardinality(String),
    preemptible           Bool,
    priority              Nullable(Int64),
    node                  LowCardinality(String),
    device_id             LowCardinality(String),
    partition_id          LowCardinality(String),
    partition_profile     LowCardinality(String),
    units                 UInt32,
    gpus                  Float64,
    start_ms              Int64,
    end_ms                Int64,
    ends_before_it_starts Bool,
    estimated             LowCardinality(String)
)
ENGINE = Memory
