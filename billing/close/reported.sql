-- One row: what a stream reported in an hour, from the table stream_hours; incomplete hours are taken out again, and
-- computed by reported_anew.sql.
-- Units:   hour = hours since the epoch; *_at = ms within the hour (1..3,600,000); *_rate = utilization x 1e9, -1 for an
--          unusable sample; length_ms, first_length = interval; usable = samples; rates, highest = over the usable.
-- Shape:   is_regular: equally long samples without overlap or duplicates, so each covers all of its interval. It is proven
--          by their common phase and by as many occupied slots as samples; if there are more samples than slots can count,
--          by the sum of their hashes, which must be that of all positions from the first to the last.
--          power, memory: as in stream_hours.
CREATE TABLE {reported:Identifier} ENGINE = Memory AS
SELECT
    stream,
    toUInt32(intDiv(toUnixTimestamp(stream_hours.hour), 3600)) AS hour,
    toInt64(sum(stream_hours.usable)) AS usable,
    toInt64(sum(stream_hours.rates)) AS rates,
    toInt64(max(stream_hours.highest)) AS highest,
    min(first) AS first_sample,
    max(last) AS last_point,
    toInt32(max(longest_ms)) AS length_ms,
    toInt32(bitShiftRight(first_sample, 64)) AS first_at,
    toInt64(4294967295 - bitAnd(toUInt64(bitShiftRight(first_sample, 32)), 4294967295)) - 1 AS first_rate,
    toInt32(4294967295 - bitAnd(toUInt64(bitAnd(first_sample, 4294967295)), 4294967295)) AS first_length,
    toInt32(bitShiftRight(last_point, 32)) AS last_at,
    toInt64(4294967295 - bitAnd(last_point, 4294967295)) - 1 AS last_rate,
    sum(samples) AS count,
    sum(stream_hours.batches) AS batches,
    min(shortest_ms) = max(longest_ms) AND min(least_phase) = max(most_phase) AS is_on_grid,
    bitCount(groupBitOr(slots)) = count AS are_apart,
    if(is_on_grid AND NOT are_apart AND last_at - first_at = (count - 1) * length_ms, count, 0) AS in_a_row,
    is_on_grid AND (are_apart OR (in_a_row > 0 AND sum(marks) =
        arraySum(arrayMap(i -> cityHash64(toUInt64(first_at + i * length_ms)), range(in_a_row))))) AS is_regular,
    toInt64(sum(powered)) AS powered,
    toInt64(sum(powers)) AS powers,
    toInt64(sum(sized)) AS sized,
    toInt64(sum(memories)) AS memories,
    min(first_power) AS first_power,
    max(last_power) AS last_power,
    min(first_memory) AS first_memory,
    max(last_memory) AS last_memory
FROM stream_hours
WHERE stream_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND stream_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
GROUP BY stream_hours.hour, stream
