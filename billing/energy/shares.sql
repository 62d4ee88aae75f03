-- One row: what a holder (claim) or the platform (0) has of a segment: units of the device, and how many it used on
-- average while that was measured.
-- Units:   micro_units = millionths of a unit in use; is_whole: it has all of the device's units, and its use does not
--          matter; memory_ms = covered time, byte_ms = the holder's bytes x ms in it.
-- Shape:   memory is the best level's that says anything, shared out by units where it is of several allocations.
CREATE TABLE {shares:Identifier} ENGINE = Memory AS
WITH
    parts AS
    (
        SELECT claim, start_ms FROM {holdings:Identifier} WHERE units != ways[-1].3
    ),
    used AS
    (
        SELECT claim, start_ms, covered_ms, used AS used_one_way, cap_of_level AS cap_one_way,
            toInt64(0) AS used_of_partition, toInt64(1) AS partition_cap, toInt64(0) AS used_of_device, toInt64(1) AS device_cap
        FROM {metered:Identifier}
        WHERE levels = 1 AND (claim, start_ms) IN parts
        UNION ALL
        SELECT claim, start_ms, covered_ms, toInt64(0) AS used_one_way, toInt64(1) AS cap_one_way,
            used_of_partition, partition_cap, used_of_device, device_cap
        FROM {several:Identifier}
        WHERE (claim, start_ms) IN parts
    ),
    memory AS
    (
        SELECT claim, start_ms, argMin(memory_ms, level) AS best_ms, argMin(byte_ms, level) AS best_byte_ms,
            argMin(cap, level) AS best_cap
        FROM {measured:Identifier}
        WHERE claim != 0 AND memory_ms > 0 AND NOT is_unclear
        GROUP BY claim, start_ms
    )
SELECT
    hour, holdings.start_ms AS start_ms, state_id, holdings.claim AS claim, toInt64(holdings.units) AS units, subject,
    units = ways[-1].3 AS is_whole,
    is_whole OR covered_ms > 0 AS use_known,
    if(covered_ms > 0, intDiv(
        intDiv(toInt128(used_one_way) * units, greatest(1, cap_one_way) * 1000)
            + intDiv(toInt128(used_of_partition) * units, greatest(1, partition_cap) * 1000)
            + intDiv(toInt128(used_of_device) * units, greatest(1, device_cap) * 1000), covered_ms), 0) AS micro_units,
    best_ms AS memory_ms,
    if(best_ms > 0, toInt64(intDiv(toInt128(best_byte_ms) * units, best_cap)), 0) AS byte_ms
FROM {holdings:Identifier} AS holdings
LEFT JOIN used ON holdings.claim = used.claim AND holdings.start_ms = used.start_ms
LEFT JOIN memory ON holdings.claim = memory.claim AND holdings.start_ms = memory.start_ms
UNION ALL
SELECT
    hour, start_ms, state_id, toUInt64(0) AS claim,
    toInt64(device_units) - if(available, toInt64(held_units), 0) AS units, toUInt64(0) AS subject,
    held_units = 0 OR NOT available AS is_whole,
    true AS use_known, toInt128(0) AS micro_units, toInt64(0) AS memory_ms, toInt64(0) AS byte_ms
FROM {segments:Identifier}
WHERE NOT available OR held_units != device_units
