-- One row: the sums of a stream's hour in stream_hours, of hours that are dirty or after one.
SELECT
    stream_hours.hour AS hour,
    stream,
    sum(stream_hours.samples) AS samples,
    sum(stream_hours.usable) AS usable,
    sum(stream_hours.rates) AS rates,
    max(stream_hours.highest) AS highest,
    min(stream_hours.first) AS first,
    max(stream_hours.last) AS last,
    min(stream_hours.shortest_ms) AS shortest_ms,
    max(stream_hours.longest_ms) AS longest_ms,
    min(stream_hours.least_phase) AS least_phase,
    max(stream_hours.most_phase) AS most_phase,
    groupBitOr(stream_hours.slots) AS slots,
    sum(stream_hours.marks) AS marks,
    sum(stream_hours.powered) AS powered,
    sum(stream_hours.powers) AS powers,
    sum(stream_hours.sized) AS sized,
    sum(stream_hours.memories) AS memories,
    min(stream_hours.first_power) AS first_power,
    max(stream_hours.last_power) AS last_power,
    min(stream_hours.first_memory) AS first_memory,
    max(stream_hours.last_memory) AS last_memory,
    sum(stream_hours.batches) AS batches,
    sum(stream_hours.usable_ms) AS usable_ms,
    sum(stream_hours.rates_ms) AS rates_ms,
    sum(stream_hours.powered_ms) AS powered_ms,
    sum(stream_hours.powers_ms) AS powers_ms,
    sum(stream_hours.sized_ms) AS sized_ms,
    sum(stream_hours.memories_ms) AS memories_ms,
    sum(stream_hours.origins) AS origins
FROM stream_hours
WHERE stream_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND stream_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
    AND intDiv(toUnixTimestamp(stream_hours.hour), 3600) GLOBAL IN
    (
        SELECT hour FROM {dirty:Identifier} UNION ALL SELECT hour + 1 FROM {dirty:Identifier}
    )
GROUP BY stream_hours.hour, stream
