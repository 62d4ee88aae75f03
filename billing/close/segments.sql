-- One row: a stretch [start_ms, end_ms) of one device and hour in which nothing changes (stretches.sql), but of the hours in whole.sql.
-- Units:   ms since the epoch; hour = hours since the epoch; active as in stretches.sql.
CREATE TABLE {segments:Identifier} ENGINE = Memory AS
SELECT
    hour,
    greatest(since, toInt64(hour) * 3600000) AS start_ms,
    least(until, toInt64(hour + 1) * 3600000) AS end_ms,
    state_id,
    device_units,
    available,
    active,
    held_units
FROM {stretches:Identifier} AS stretches
LEFT JOIN
(
    SELECT state_id, since, groupBitOr(toUInt8(bitShiftLeft(1, hour % {shift_hours:UInt8}))) AS done FROM {whole:Identifier} GROUP BY state_id, since
) AS whole ON stretches.state_id = whole.state_id AND stretches.since = whole.since
ARRAY JOIN arrayFilter(x -> NOT bitTest(done, x % {shift_hours:UInt8}), range(toUInt32(intDiv(since, 3600000)), toUInt32(intDiv(until - 1, 3600000) + 1))) AS hour
WHERE hour IN (SELECT hour FROM {dirty:Identifier})
