-- One row: an hour of a device that one holder has whole, where the sums of streams are enough (said.sql), and the workload's own
-- and everybody's do not say the same: what they say of the hour is the holder's.
-- Units:   used = ms x units x 1e9; covered_ms, power_ms, memory_ms = covered; nanojoules; byte_ms.
-- Reads:   most hours are such. They need none of the steps that share a device out (holdings.sql and those after it), which
--          would find the same. By the setting the engine looks hours up in what streams say, and not the other way round.
CREATE TABLE {whole:Identifier} ENGINE = Memory AS
SELECT
    state_id, held.hour AS hour, start_ms, held.claim AS claim, units, cityHash64(product, payer) AS subject,
    workload.covered + whoever.covered AS covered_ms,
    (workload.rate_ms + whoever.rate_ms) * units AS used,
    workload.power_ms + whoever.power_ms AS power_ms,
    workload.nanojoules + whoever.nanojoules AS nanojoules,
    workload.memory_ms + whoever.memory_ms AS memory_ms,
    workload.byte_ms + whoever.byte_ms AS byte_ms
FROM
(
    SELECT state_id, hour, start_ms, active[1].1 AS claim, toInt64(device_units) AS units
    FROM {segments:Identifier}
    WHERE available AND length(active) = 1 AND active[1].2 = device_units AND active[1].4 = 0 AND end_ms - start_ms = 3600000
) AS held
INNER JOIN
(
    SELECT claim, payer, stream_3, stream_4 FROM {settled:Identifier} WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}
) AS claims ON held.claim = claims.claim
INNER JOIN (SELECT state_id, product FROM {states:Identifier}) AS states ON held.state_id = states.state_id
ANY LEFT JOIN {said:Identifier} AS workload ON claims.stream_3 = workload.stream AND held.hour = workload.hour
ANY LEFT JOIN {said:Identifier} AS whoever ON claims.stream_4 = whoever.stream AND held.hour = whoever.hour
WHERE NOT (workload.is_unclear OR whoever.is_unclear
    OR (workload.covered > 0 AND whoever.covered > 0)
    OR (workload.power_ms > 0 AND whoever.power_ms > 0)
    OR (workload.memory_ms > 0 AND whoever.memory_ms > 0))
SETTINGS query_plan_join_swap_table = 'false'
