-- One row: power and memory of one stream in a stretch of an hour, from start_ms on, as far as its hourly sums are enough:
-- for a segment (claim = 0, the device's own stream) or a holding (level, as in holdings.sql).
-- Units:   power_ms, memory_ms = covered; nanojoules; byte_ms; begins, ends = first and last ms with power in the hour.
-- Shape:   of_power: the stream may measure the segment's power: the device's own, and that of a workload that is alone on
--          it. is_unclear: the samples themselves must be read (see measured_again.sql). is_since_known: power begins there, and
--          not later (see undecided.sql).
-- Traps:   a stream's sums are enough for a stretch if they add up, its samples end in it, and all but the first begin
--          in it, or if only its first (its last) sample can reach into it. Only the first sample of an hour can begin in
--          the hour before, from where that hour's last one ends.
CREATE TABLE {measured:Identifier} ENGINE = Memory AS
SELECT
    state_id,
    claim,
    start_ms,
    level,
    any(stream) AS stream,
    any(cap) AS cap,
    any(of_power) AS of_power,
    any(hour) AS hour,
    any(begin) AS begin,
    any(stop) AS stop,
    max(unclear) AS is_unclear,
    min(since_known) AS is_since_known,
    sum(covered_power) AS power_ms,
    sum(energy) AS nanojoules,
    sum(covered_memory) AS memory_ms,
    sum(held) AS byte_ms,
    minIf(starts, covered_power > 0) AS begins,
    maxIf(finishes, covered_power > 0) AS ends
FROM
(
    SELECT
        stream, state_id, claim, level, cap, of_power, ways.hour AS hour, start_ms, begin, stop,
        adds_up AND first_at > begin AND last_at - shortest_ms < stop AS is_inside,
        adds_up AND first_at >= stop AS only_first,
        adds_up AND last_at - shortest_ms <= begin AS only_last,
        NOT (is_inside OR only_first OR only_last) AS unclear,
        NOT is_inside OR is_since_known AS since_known,
        toInt64(multiIf(is_inside, least(0, first_since - begin), only_first, stop - greatest(first_since, begin), 0)) AS of_first,
        toInt64(multiIf(is_inside, least(0, stop - last_at), only_last, least(last_at, stop) - begin, 0)) AS of_last,
        if(is_inside, powered_ms, 0) + power_at_first * of_first + power_at_last * of_last AS covered_power,
        if(is_inside, powers_ms, 0) + power_at_first * of_first * power_first + power_at_last * of_last * power_last AS energy,
        if(is_inside, sized_ms, 0) + memory_at_first * of_first + memory_at_last * of_last AS covered_memory,
        if(is_inside, memories_ms, 0) + memory_at_first * of_first * memory_first
            + memory_at_last * of_last * memory_last AS held,
        greatest(begin, if(only_last AND NOT is_inside, begin, power_since)) AS starts,
        least(stop, if(only_first AND NOT is_inside, stop, toInt32(bitShiftRight(last_power, 42)))) AS finishes
    FROM {ways:Identifier} AS ways
    INNER JOIN {speaking:Identifier} AS speaking ON ways.stream = speaking.stream AND ways.hour = speaking.hour
    WHERE earliest < stop AND last_at > begin AND (unclear OR covered_power > 0 OR covered_memory > 0)
    UNION ALL
    SELECT
        stream, state_id, claim, level, cap, of_power, ways.hour AS hour, start_ms, begin, stop,
        false AS is_inside, false AS only_first, false AS only_last,
        NOT adds_up AS unclear,
        true AS since_known,
        toInt64(greatest(0, stop - greatest(earliest + 3600000, before_last, begin))) AS of_first,
        toInt64(0) AS of_last,
        power_at_first * of_first AS covered_power,
        power_at_first * of_first * power_first AS energy,
        memory_at_first * of_first AS covered_memory,
        memory_at_first * of_first * memory_first AS held,
        greatest(earliest + 3600000, before_last, begin) AS starts,
        stop AS finishes
    FROM {ways:Identifier} AS ways
    INNER JOIN
    (
        SELECT this.stream AS stream, this.hour AS hour, earliest, adds_up, power_at_first, power_first, memory_at_first,
            memory_first, earlier.last_at AS before_last
        FROM (SELECT stream, hour, last_at FROM {reported:Identifier}) AS earlier
        ANY RIGHT JOIN (SELECT * EXCEPT hour, toUInt32(hour - 1) AS hour FROM {speaking:Identifier} WHERE earliest < 0) AS this
            ON earlier.stream = this.stream AND earlier.hour = this.hour
    ) AS next ON ways.stream = next.stream AND ways.hour = next.hour
    WHERE of_first > 0 AND (unclear OR covered_power > 0 OR covered_memory > 0)
)
GROUP BY state_id, claim, start_ms, level
