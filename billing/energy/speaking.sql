-- One row: an hour of a stream that reports power or memory, as far as measured.sql asks for it.
-- Units:   ms of the hour; power_* in milliwatts as in stream_hours.   power_at_first, ...: its first sample has power.
CREATE TABLE {speaking:Identifier} ENGINE = Memory AS
WITH 4398046511103 AS low_bits
SELECT
    stream, hour, first_at, last_at, first_at - first_length AS first_since, 
    if(adds_up, first_since, first_at - longest_ms) AS earliest, shortest_ms, adds_up,
    power_since, is_since_known, powered, powered_ms, powers_ms, sized, sized_ms, memories_ms, first_power, last_power,
    powered > 0 AND bitShiftRight(first_power, 42) = first_at AS power_at_first,
    powered > 0 AND bitShiftRight(last_power, 42) = last_at AS power_at_last,
    toInt64(bitAnd(first_power, low_bits)) AS power_first,
    toInt64(bitAnd(last_power, low_bits)) AS power_last,
    sized > 0 AND bitShiftRight(first_memory, 42) = first_at AS memory_at_first,
    sized > 0 AND bitShiftRight(last_memory, 42) = last_at AS memory_at_last,
    toInt64(bitAnd(first_memory, low_bits)) AS memory_first,
    toInt64(bitAnd(last_memory, low_bits)) AS memory_last
FROM {reported:Identifier}
WHERE powered > 0 OR sized > 0
