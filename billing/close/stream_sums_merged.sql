-- One row: as in stream_sums.sql, of a stream_hours that is itself a table here: FINAL groups by key, too, but only what is in
-- several parts.
-- Traps:   of a view, and across shards, FINAL sums nothing.
SELECT
    stream_hours.hour AS hour,
    stream,
    samples, usable, rates, highest, first, last, shortest_ms, longest_ms,
    least_phase, most_phase, slots, marks, powered, powers, sized, memories,
    first_power, last_power, first_memory, last_memory, batches, usable_ms, rates_ms, powered_ms,
    powers_ms, sized_ms, memories_ms, origins
FROM stream_hours FINAL
WHERE stream_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND stream_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
    AND intDiv(toUnixTimestamp(stream_hours.hour), 3600) GLOBAL IN
    (
        SELECT hour FROM {dirty:Identifier} UNION ALL SELECT hour + 1 FROM {dirty:Identifier}
    )
