-- One row: an hour before {until_ms:Int64} with anything to compute, and the fingerprint of all inputs of its entries:
-- claims and device states clipped to the hour, prices in force of its holders and of the platform, sample batches that
-- touch it.
-- Units:   hour = hours since the epoch; facts = number of claims, device states and prices in it.
-- Traps:   fingerprints are sums of hashes, so order does not matter; batches count once (merging facts is no change). A
--          later batch that touches an hour changes its fingerprint.
-- Params:  firsts, nexts: the hours to examine, in runs [first, next). $$touching: a condition on touched_hours that
--          selects samples which may touch those. batches: those that the close reads.
WITH
    {until_ms:Int64} AS until,
    facts AS
    (
        SELECT start_ms, least(end_ms, until) AS end_ms,
            cityHash64('claim', claim, cluster, device_id, partition_id, partition_profile, workload_id, allocation_id, tenant, project, queue, preemptible, units, estimated)
                + if(reported_tenant = tenant AND reported_project = project AND cost_center = '' AND NOT unmapped AND isNull(priority), 0,
                    cityHash64('payer', claim, reported_tenant, reported_project, cost_center, unmapped, ifNull(toString(priority), ''))) AS what
        FROM {settled:Identifier}
        WHERE start_ms < least(end_ms, until)
        UNION ALL
        SELECT start_ms, least(end_ms, until) AS end_ms, cityHash64('state', state_id, node, model, pool, units, available) AS what
        FROM {states:Identifier}
        WHERE start_ms < least(end_ms, until)
    ),
    -- What a price is asked for: a payer on a model in a pool, while one of them holds some of the other.
    asked AS
    (
        SELECT cityHash64(product, payer) AS subject, greatest(claims.start_ms, states.start_ms) AS start_ms, least(claims.end_ms, states.end_ms, until) AS end_ms
        FROM {settled:Identifier} AS claims
        INNER JOIN {states:Identifier} AS states ON claims.device = states.device
        WHERE start_ms < end_ms
        UNION ALL
        SELECT cityHash64(product, cityHash64('', '', '', toUInt16(0), toUInt8(0))) AS subject, start_ms, least(end_ms, until) AS end_ms
        FROM {states:Identifier}
        WHERE start_ms < least(end_ms, until)
    ),
    priced AS
    (
        SELECT subject, greatest(from_ms, first_ms) AS start_ms, least(to_ms, until) AS end_ms,
            cityHash64('price', model, pool, payer, sku, list_unit_price, contracted_unit_price, currency)
                + if(cluster = '', 0, cityHash64('cluster', cluster)) AS what
        FROM {prices:Identifier}, (SELECT min(start_ms) AS first_ms FROM {states:Identifier}) AS existence
        WHERE start_ms < end_ms
    ),
    clipped AS
    (
        SELECT hour, sum(lying) AS facts, sum(hashes) AS inputs
        FROM
        (
            SELECT subject, hour, countIf(kind = 'asked') AS asking, countIf(kind != 'asked') AS lying,
                sumIf(cityHash64(what, greatest(start_ms, toInt64(hour) * 3600000), least(end_ms, toInt64(hour + 1) * 3600000)), kind != 'asked') AS hashes
            FROM
            (
                SELECT toUInt64(0) AS subject, start_ms, end_ms, what, 'fact' AS kind FROM facts
                UNION ALL
                SELECT subject, start_ms, end_ms, toUInt64(0) AS what, 'asked' AS kind FROM asked
                UNION ALL
                SELECT subject, start_ms, end_ms, what, 'price' AS kind FROM priced
            )
            ARRAY JOIN arrayFlatten(arrayMap(
                (first, next) -> range(
                    greatest(toUInt32(intDiv(start_ms, 3600000)), first), least(toUInt32(intDiv(end_ms - 1, 3600000) + 1), next)),
                {firsts:Array(UInt32)}, {nexts:Array(UInt32)})) AS hour
            GROUP BY subject, hour
            HAVING subject = 0 OR asking > 0
        )
        GROUP BY hour
    ),
    -- An interval is an hour at most: a sample reaches into the hour before, and no further. Whatever ends before one that
    -- does, or with it, may leave it less of that hour.
    reaching AS
    (
        SELECT batch, toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS ends_in,
            reach_ms > 0 OR first_ms <= max(if(reach_ms > 0, longest_ms, 0)) OVER (PARTITION BY hour) AS reaches_back
        FROM touched_hours
        WHERE batch GLOBAL IN {batches:Identifier} AND $touching
    ),
    touches AS
    (
        SELECT hour_touched AS hour, sum(cityHash64('batch', batch)) AS inputs
        FROM
        (
            SELECT DISTINCT batch, ends_in - back AS hour_touched
            FROM reaching
            ARRAY JOIN range(toUInt32(1 + reaches_back)) AS back
        )
        GROUP BY hour
    )
SELECT clipped.hour AS hour, clipped.facts AS facts, clipped.inputs + touches.inputs + {zone_hash:UInt64} AS inputs
FROM clipped
LEFT JOIN touches ON clipped.hour = touches.hour
WHERE toInt64(clipped.hour) * 3600000 < until
ORDER BY hour
