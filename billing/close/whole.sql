-- One row: an hour of a device that one holder has whole, where the sums of streams are enough (said.sql), and the workload's own
-- and everybody's do not say the same: what they say of the hour is the holder's. With all that an entry says besides.
-- Units:   used = ms x units x 1e9; covered_ms, power_ms, memory_ms = covered; nanojoules; byte_ms.
-- $$made:   as in said.sql.
-- Shape:   since = the beginning of its stretch, which has one price.
-- Reads:   most hours are such. They need none of the steps that share a device out (segments.sql and those after it), which
--          would find the same; and a stretch of them is described in words once. By the setting the engine looks hours up in
--          what streams say, and not the other way round.
CREATE TABLE {whole:Identifier} ENGINE = Memory $made
WITH
    held AS
    (
        SELECT
            since, until, state_id, active[1].1 AS claim, toInt64(device_units) AS units,
            range(toUInt32(intDiv(since + 3599999, 3600000)), toUInt32(intDiv(until, 3600000))) AS hours
        FROM {stretches:Identifier}
        WHERE is_whole AND notEmpty(hours)
    ),
    described AS
    (
        SELECT
            since, hours, held.state_id AS state_id, held.claim AS claim, held.units AS units, stream_3, stream_4,
            states.cluster AS cluster, states.node AS node, states.device_id AS device_id, model, pool, states.units AS device_units,
            tenant, project, cost_center, reported_tenant, reported_project, unmapped, queue, workload_id, allocation_id,
            partition_id, partition_profile, preemptible, priority, estimated,
            cityHash64(product, payer) AS subject
        FROM held
        INNER JOIN (SELECT * FROM {settled:Identifier} WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}) AS claims
            ON held.claim = claims.claim
        INNER JOIN {states:Identifier} AS states ON held.state_id = states.state_id
    ),
    hourly AS
    (
        SELECT
            described.* EXCEPT (hours, subject),
            since < prices.to_ms AS is_priced,
            if(is_priced, prices.sku, '') AS sku,
            if(is_priced, prices.currency, '') AS currency,
            if(is_priced, prices.list_unit_price, NULL) AS list_unit_price,
            if(is_priced, prices.contracted_unit_price, NULL) AS contracted_unit_price,
            hour
        FROM described
        ASOF LEFT JOIN {prices:Identifier} AS prices ON described.subject = prices.subject AND described.since >= prices.from_ms
        ARRAY JOIN hours AS hour
        WHERE hour IN (SELECT hour FROM {dirty:Identifier})
    )
SELECT
    hourly.* EXCEPT (hour, stream_3, stream_4, is_priced),
    hourly.hour AS hour,
    workload.covered + whoever.covered AS covered_ms,
    (workload.rate_ms + whoever.rate_ms) * units AS used,
    workload.power_ms + whoever.power_ms AS power_ms,
    workload.nanojoules + whoever.nanojoules AS nanojoules,
    workload.memory_ms + whoever.memory_ms AS memory_ms,
    workload.byte_ms + whoever.byte_ms AS byte_ms
FROM hourly
ANY LEFT JOIN {said:Identifier} AS workload ON hourly.stream_3 = workload.stream AND hourly.hour = workload.hour
ANY LEFT JOIN
(
    SELECT * FROM {said:Identifier} WHERE stream IN (SELECT cityHash64(cluster, device_id, '', '') FROM {states:Identifier})
) AS whoever ON hourly.stream_4 = whoever.stream AND hourly.hour = whoever.hour
WHERE NOT (workload.is_unclear OR whoever.is_unclear
    OR (workload.covered > 0 AND whoever.covered > 0)
    OR (workload.power_ms > 0 AND whoever.power_ms > 0)
    OR (workload.memory_ms > 0 AND whoever.memory_ms > 0))
SETTINGS query_plan_join_swap_table = 'false'
