-- One row: a stream that may say how a holding was used: one of its ways (see holdings.sql), the best level first,
-- and that says anything in these hours or the one after them.
-- Units:   begin, stop = the holding in ms of the hour.
-- Shape:   of_power: the stream may measure the power of the holding's segment: the device's own, and that of a workload, where that is
--          alone.
CREATE TABLE {ways:Identifier} ENGINE = Memory AS
SELECT state_id, claim, hour, start_ms, toInt64(way.1) AS level, way.2 AS stream, toInt64(way.3) AS scale, toInt64(way.4) AS cap,
    CAST(level >= 3 AND ways[-1].1 = 4 AS Bool) AS of_power,
    toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
FROM {holdings:Identifier}
ARRAY JOIN ways AS way
WHERE way.2 IN (SELECT stream FROM {reported:Identifier})
