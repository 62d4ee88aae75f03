-- One row: what a subject held in closed hours at one pair of prices: that of one card, and that of another.
-- Units:   micro_ms: millionths of a unit-millisecond, on devices with device_units units; prices per GPU-hour, NULL
--          where unknown.
-- Params:  start, end = [start, end); by_cluster (see billing.rates.staging); old, new = tables of prices.
--          $$keys: subject_keys.sql.
-- Traps:   an entry is priced as of its start, also if only the new card's price changes within it.
WITH
    held AS
    (
        SELECT
            model, pool, partition_profile, tenant, device_units, charge_period_start,
            $keys,
            if({by_cluster:UInt8}, ledger.cluster, '') AS cluster,
            min(ledger.priority) AS priority,
            cityHash64(cityHash64(model, pool, cluster), cityHash64(partition_profile, tenant, queue, priority_level, preemptible)) AS subject,
            toUnixTimestamp64Milli(charge_period_start) AS start_ms,
            toInt128(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) * 1000000) AS micro_ms
        FROM ledger
        WHERE allocation_id != ''
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
        GROUP BY model, pool, partition_profile, tenant, device_units, charge_period_start, queue, priority_level, preemptible, cluster
    ),
    priced AS
    (
        SELECT held.*, if(held.start_ms < before.to_ms, before.price, 0) AS old_price
        FROM held
        ASOF LEFT JOIN {old:Identifier} AS before ON held.subject = before.subject AND held.start_ms >= before.from_ms
    ),
    both AS
    (
        SELECT priced.*, if(priced.start_ms < after.to_ms, after.price, 0) AS new_price
        FROM priced
        ASOF LEFT JOIN {new:Identifier} AS after ON priced.subject = after.subject AND priced.start_ms >= after.from_ms
    )
SELECT
    both.model AS model, both.pool AS pool, both.partition_profile AS partition_profile, both.tenant AS tenant,
    both.queue AS queue, both.preemptible AS preemptible, both.cluster AS cluster, both.priority_level AS priority_level,
    any(both.priority) AS priority, both.device_units AS device_units,
    if(old_price = 0, NULL, before.contracted_unit_price) AS old_unit_price,
    if(new_price = 0, NULL, after.contracted_unit_price) AS new_unit_price,
    sum(both.micro_ms) AS micro_ms
FROM both
LEFT JOIN {old:Identifier} AS before ON both.old_price = before.price
LEFT JOIN {new:Identifier} AS after ON both.new_price = after.price
GROUP BY model, pool, partition_profile, tenant, queue, preemptible, cluster, priority_level, device_units, old_unit_price, new_unit_price
ORDER BY tenant, model, pool, partition_profile, queue, preemptible, priority_level, cluster
