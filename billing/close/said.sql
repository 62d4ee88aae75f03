-- One row: what a stream says of a whole hour, if its sums are enough: they, less what its first sample covers of the hour before,
-- and what the first sample of the next hour covers of this one (next_*), for which it may have no sample of its own.
-- Units:   covered, power_ms, memory_ms = ms; rate_ms = utilization x 1e9 x ms; nanojoules; byte_ms.
-- Shape:   is_unclear: they are not enough, or a use above all of the device is capped: holders are looked at one by one.
-- $$made:   EMPTY AS, where nobody has a device whole; else AS.
-- Traps:   as in metered.sql and energy/measured.sql, of which this is the case of a stretch that is a whole hour.
CREATE TABLE {said:Identifier} ENGINE = Memory $made
WITH
    4398046511103 AS low_bits,
    hours AS
    (
        SELECT
            stream, hour, adds_up, last_at, usable, usable_ms, rates_ms, highest, first_rate,
            powered > 0 OR sized > 0 AS is_measured, powered_ms, powers_ms, sized_ms, memories_ms,
            first_at - first_length AS first_since,
            if(adds_up, first_since, first_at - longest_ms) AS earliest,
            powered > 0 AND bitShiftRight(first_power, 42) = first_at AS power_at_first,
            toInt64(bitAnd(first_power, low_bits)) AS power_first,
            sized > 0 AND bitShiftRight(first_memory, 42) = first_at AS memory_at_first,
            toInt64(bitAnd(first_memory, low_bits)) AS memory_first
        FROM {reported:Identifier}
    ),
    nexts AS
    (
        SELECT
            stream, toUInt32(hour - 1) AS hour, true AS has_next,
            first_since + 3600000 AS next_since,
            if(first_since < 0, first_rate, -1) AS next_rate,
            earliest + 3600000 AS next_earliest,
            is_measured AND NOT adds_up AS is_next_unclear,
            power_at_first AS next_has_power, power_first AS next_power,
            memory_at_first AS next_has_memory, memory_first AS next_memory
        FROM hours
        WHERE first_since < 0 OR earliest < 0
    ),
    reaching AS
    (
        SELECT
            *,
            least(0, first_since) AS of_first,
            if(first_rate < 0, 0, least(0, first_since)) AS of_first_rate,
            if(has_next AND next_rate >= 0, 3600000 - greatest(next_since, last_at), 0) AS of_next_rate,
            if(has_next, 3600000 - greatest(next_earliest, last_at), 0) AS of_next
        FROM hours
        FULL JOIN nexts USING (stream, hour)
    )
SELECT *
FROM
(
    SELECT
        stream, hour,
        (NOT adds_up AND (usable > 0 OR is_measured)) OR is_next_unclear OR greatest(highest, next_rate) > 1000000000 AS is_unclear,
        usable_ms + of_first_rate + of_next_rate AS covered,
        rates_ms + of_first_rate * first_rate + of_next_rate * next_rate AS rate_ms,
        powered_ms + power_at_first * of_first + next_has_power * of_next AS power_ms,
        powers_ms + power_at_first * of_first * power_first + next_has_power * of_next * next_power AS nanojoules,
        sized_ms + memory_at_first * of_first + next_has_memory * of_next AS memory_ms,
        memories_ms + memory_at_first * of_first * memory_first + next_has_memory * of_next * next_memory AS byte_ms
    FROM reaching
)
WHERE is_unclear OR covered > 0 OR power_ms > 0 OR memory_ms > 0
