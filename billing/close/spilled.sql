-- One row: the part of a usable sample that lies in the hour before the one it ends in.
-- Units:   ms relative to the start of that hour; rate = utilization x 1e9.
-- Traps:   only the first sample of a stream's hour can begin in the hour before, and no earlier than that hour's last.
CREATE TABLE {spilled:Identifier} ENGINE = Memory AS
SELECT
    this.stream AS stream,
    toUInt32(this.hour - 1) AS hour,
    toInt32(bitShiftRight(points[1], 32)) + 3600000 AS at,
    greatest(at - toInt64({uniform_ms:UInt32}) - toInt64(if(empty(lengths), 0, 4294967295 - bitAnd(lengths[1], 4294967295))), before.last) AS since,
    toInt64(4294967295 - bitAnd(points[1], 4294967295)) - 1 AS rate
FROM {sample_hours:Identifier} AS this
ANY LEFT JOIN
(
    SELECT stream, hour + 1 AS hour, toInt32(bitShiftRight(points[-1], 32)) AS last FROM {sample_hours:Identifier}
) AS before ON this.stream = before.stream AND this.hour = before.hour
WHERE since < 3600000 AND rate >= 0
