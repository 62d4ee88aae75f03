-- One row: what one level of streams says of a segment's power (memory = 0, id = state_id) or of a holding's memory
-- (memory = 1, id = claim).
-- Units:   covered_ms; amount = microwatts x ms (nanojoules), or bytes x ms; begins, ends = first and last covered ms.
-- Shape:   power: 4 everybody on the device, else 3 the workload on the device, if it is alone there.
--          memory: the levels of holdings. Level 1 is read best there, level 4 first here.
-- Traps:   a reading covers from the later of ts - interval and the previous sample of its stream, whatever that says.
CREATE TABLE {measured:Identifier} ENGINE = Memory AS
WITH
    wanted AS
    (
        SELECT toUInt8(0) AS memory, state_id AS id, hour, start_ms, toUInt8(4) AS level, stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM {segments:Identifier} AS segments
        INNER JOIN (SELECT state_id, cityHash64(cluster, device_id, '', '') AS stream FROM {states:Identifier}) AS states
            ON segments.state_id = states.state_id
        UNION ALL
        SELECT toUInt8(0) AS memory, state_id AS id, hour, start_ms, toUInt8(3) AS level, stream_3 AS stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM
        (
            SELECT state_id, hour, start_ms, end_ms, active[1].1 AS claim
            FROM {segments:Identifier}
            WHERE available AND length(arrayDistinct(active.3)) = 1
        ) AS alone
        INNER JOIN (SELECT claim, stream_3 FROM {settled:Identifier}) AS claims ON alone.claim = claims.claim
        UNION ALL
        SELECT toUInt8(1) AS memory, claim AS id, hour, start_ms, toUInt8(way.1) AS level, way.2 AS stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM {holdings:Identifier}
        ARRAY JOIN ways AS way
    ),
    placed AS
    (
        SELECT
            stream,
            hour,
            arrayMap(x -> toInt32(bitShiftRight(x, 104)), points) AS at,
            arrayMap(
                (x, t, p) -> greatest(t - 4194303 + toInt32(bitAnd(bitShiftRight(x, 44), 4194303)), p),
                points, at, arrayPushFront(arrayPopBack(at), toInt32(-3600000))) AS since,
            arrayMap(x -> 274877906942 - toInt64(bitAnd(bitShiftRight(x, 66), 274877906943)), points) AS power,
            arrayMap(x -> toInt64(bitAnd(x, 17592186044415)) - 1, points) AS bytes
        FROM {readings:Identifier}
    ),
    spans AS
    (
        SELECT stream, hour, since, at, power, bytes FROM placed
        UNION ALL
        SELECT this.stream AS stream, toUInt32(this.hour - 1) AS hour,
            [toInt32(greatest(this.since[1] + 3600000, before.last))] AS since, [toInt32(3600000)] AS at,
            [this.power[1]] AS power, [this.bytes[1]] AS bytes
        FROM placed AS this
        ANY LEFT JOIN (SELECT stream, hour + 1 AS hour, at[-1] AS last FROM placed) AS before
            ON this.stream = before.stream AND this.hour = before.hour
        WHERE this.since[1] < 0
    )
SELECT
    memory,
    id,
    start_ms,
    level,
    sum(covered) AS covered_ms,
    sum(value) AS amount,
    min(starts) AS begins,
    max(finishes) AS ends
FROM
(
    SELECT
        memory, id, start_ms, level,
        if(memory = 1, bytes, power) AS values,
        arrayMap((s, e, v) -> if(v < 0, 0, toInt64(greatest(0, least(e, stop) - greatest(s, begin)))), since, at, values) AS lengths,
        arraySum(lengths) AS covered,
        arraySum(arrayMap((l, v) -> l * v, lengths, values)) AS value,
        greatest(since[arrayFirstIndex(l -> l > 0, lengths)], begin) AS starts,
        least(at[arrayLastIndex(l -> l > 0, lengths)], stop) AS finishes
    FROM spans
    INNER JOIN wanted ON spans.stream = wanted.stream AND spans.hour = wanted.hour
    WHERE covered > 0
)
GROUP BY memory, id, start_ms, level
