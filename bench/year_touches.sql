-- One row: a batch of samples of long ago, as its note on the hour that it touched; the samples themselves are left out.
-- Params:  from_minute, minutes: since the fleet's start.   groups: of 16 devices, as in year_samples.sql.
INSERT INTO touched_hours (hour, batch, rows, reach_ms, shortest_ms, longest_ms, first_ms)
SELECT
    toStartOfHour({start:DateTime64(3, 'UTC')} + toIntervalMillisecond(toInt64(minute) * 60000 - 1)) AS hour,
    cityHash64(number % {groups:UInt64}, minute) AS batch,
    16, 0, 60000, 60000, toUInt32((minute - 1) % 60 * 60000 + 60000)
FROM (SELECT number, {from_minute:UInt64} + intDiv(number, {groups:UInt64}) + 1 AS minute FROM numbers({groups:UInt64} * {minutes:UInt64}))
