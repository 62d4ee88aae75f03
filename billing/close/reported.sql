-- One row: what a stream reported in an hour that is dirty or after one, from the table stream_hours; where that is incomplete, or its sums are not
-- exact, reported_anew.sql replaces it.
-- Units:   hour = hours since the epoch; *_at = ms within the hour (1..3,600,000); *_rate = utilization x 1e9, -1 for an
--          unusable sample; shortest_ms, longest_ms, first_length = interval; usable = samples; *_ms of the usable, of
--          those with power and of those with memory = covered; rates_ms, powers_ms, memories_ms = rate, microwatts,
--          bytes x ms of those.
-- Shape:   adds_up: no sample overlaps another, so each covers all of its interval, and the sums are exact. Either
--          is_regular: equally long samples of a common phase, as many as the slots that they occupy; if there are more
--          than slots can count, the sum of their hashes is that of all positions from the first to the last. Or
--          is_seamless: each but the first begins where another ends, since the hashes of where they end and of where
--          they begin differ by those of the last end and the first begin alone (origins; 0 in sums of before them).
--          power, memory: as in stream_hours. power_since: where the first sample with power begins, if that is known.
-- $$sums:   stream_sums.sql or stream_sums_merged.sql.
-- Reads:   in steps, each of which names the columns of the one before: the engine takes an alias apart again wherever it is
--          named, and needed 1.7 times as long to plan all of it as one step.
CREATE TABLE {reported:Identifier} ENGINE = Memory AS
WITH
    decoded AS
    (
        SELECT
            stream,
            toUInt32(intDiv(toUnixTimestamp(sums.hour), 3600)) AS hour,
            toInt64(sums.usable) AS usable,
            toInt64(sums.highest) AS highest,
            toInt32(sums.shortest_ms) AS shortest_ms,
            toInt32(sums.longest_ms) AS longest_ms,
            toInt32(bitShiftRight(first, 64)) AS first_at,
            toInt64(4294967295 - bitAnd(toUInt64(bitShiftRight(first, 32)), 4294967295)) - 1 AS first_rate,
            toInt32(4294967295 - bitAnd(toUInt64(bitAnd(first, 4294967295)), 4294967295)) AS first_length,
            toInt32(bitShiftRight(last, 32)) AS last_at,
            toInt64(4294967295 - bitAnd(last, 4294967295)) - 1 AS last_rate,
            samples,
            batches,
            sums.shortest_ms = sums.longest_ms AND least_phase = most_phase AS is_on_grid,
            bitCount(slots) = samples AS are_apart,
            marks,
            origins,
            toInt64(sums.powered) AS powered,
            toInt64(sums.sized) AS sized,
            toInt64(sums.rates) AS rates,
            toInt64(sums.powers) AS powers,
            toInt64(sums.memories) AS memories,
            toInt64(sums.usable_ms) AS usable_ms,
            toInt64(sums.rates_ms) AS rates_ms,
            toInt64(sums.powered_ms) AS powered_ms,
            toInt64(sums.powers_ms) AS powers_ms,
            toInt64(sums.sized_ms) AS sized_ms,
            toInt64(sums.memories_ms) AS memories_ms,
            first_power,
            last_power,
            toInt32(bitShiftRight(first_power, 42)) AS power_at,
            first_memory,
            last_memory
        FROM
        (
            $sums
        ) AS sums
    ),
    counted AS
    (
        SELECT *, if(is_on_grid AND NOT are_apart AND last_at - first_at = (samples - 1) * longest_ms, samples, 0) AS in_a_row
        FROM decoded
    ),
    shaped AS
    (
        SELECT
            *,
            is_on_grid AND (are_apart OR (in_a_row > 0 AND marks =
                arraySum(i -> cityHash64(toUInt64(first_at + i * longest_ms)), range(in_a_row)))) AS is_regular,
            shortest_ms > 0 AND toUInt64(marks - origins)
                = toUInt64(cityHash64(toUInt64(last_at)) - cityHash64(toUInt64(first_at - first_length))) AS is_seamless
        FROM counted
    )
SELECT
    stream, hour, usable, highest, shortest_ms, longest_ms, first_at, first_rate, first_length, last_at, last_rate, batches,
    is_regular OR is_seamless AS adds_up,
    powered,
    sized,
    if(is_regular, usable * longest_ms, shaped.usable_ms) AS usable_ms,
    if(is_regular, rates * longest_ms, shaped.rates_ms) AS rates_ms,
    if(is_regular, powered * longest_ms, shaped.powered_ms) AS powered_ms,
    if(is_regular, powers * longest_ms, shaped.powers_ms) AS powers_ms,
    if(is_regular, sized * longest_ms, shaped.sized_ms) AS sized_ms,
    if(is_regular, memories * longest_ms, shaped.memories_ms) AS memories_ms,
    first_power,
    last_power,
    if(power_at = first_at, first_at - first_length, power_at - longest_ms) AS power_since,
    is_regular OR power_at = first_at OR powered = 0 AS is_since_known,
    first_memory,
    last_memory,
    false AS is_anew
FROM shaped
