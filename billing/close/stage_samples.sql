-- The samples of some streams and hours (see sample_hours.sql).
CREATE TABLE {sample_hours:Identifier}
(
    stream   UInt64,
    hour     UInt32,
    points   Array(UInt64),
    lengths  Array(UInt64),
    powers   Array(UInt64),
    memories Array(UInt64),
    spans    Array(UInt64)
)
ENGINE = Memory
