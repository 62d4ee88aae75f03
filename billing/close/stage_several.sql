-- Holdings that several levels of streams measure; usually there are none.
CREATE TABLE {several:Identifier}
(
    claim             UInt64,
    start_ms          Int64,
    covered_ms        Int64,
    used_of_partition Int64,
    partition_cap     Int64,
    used_of_device    Int64,
    device_cap        Int64
)
ENGINE = Memory
