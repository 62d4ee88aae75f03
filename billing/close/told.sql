-- One row: what a stream told in an hour, from the table stream_hours; incomplete hours come by tell_again.sql.
-- Units:   hour = hours since the epoch; *_at = ms within the hour (1..3,600,000); *_rate = utilization x 1e9, -1 for an
--          unusable sample; length_ms, first_length = interval; usable = samples; rates, highest = over the usable.
-- Shape:   is_regular: equally long samples that do not overlap, none of them twice: each covers all of its interval.
--          It is proven by their common phase and by as many occupied slots as samples.
CREATE TABLE {told:Identifier} ENGINE = Memory AS
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
    min(shortest_ms) = max(longest_ms) AND min(least_phase) = max(most_phase)
        AND bitCount(groupBitOr(slots)) = sum(samples) AS is_regular
FROM stream_hours
WHERE stream_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND stream_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
    AND toUInt32(intDiv(toUnixTimestamp(stream_hours.hour), 3600)) NOT IN {incomplete:Array(UInt32)}
GROUP BY stream_hours.hour, stream
