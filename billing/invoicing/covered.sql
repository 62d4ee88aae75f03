-- One row: how much of a tenant's usage, alike in all that policies ask about, a quota covers. A tenant's quotas work in
-- the card's order, each on what those before it left: in every hour the dearest first, then the earliest, until the
-- hour's quota is used. So what is held is covered once, and no more of it than was held. What a quota leaves unused in an
-- hour covers what short sessions that ended in it lack to the minimum (stretched = 1).
-- Units:   *_micro_ms: millionths of a unit-millisecond on devices of {scale_units:UInt64} units; a quota is per hour.
-- Params:  start, end = [start, end); $$quotas = table of (tenant, sku, turn, commitment, quota_micro_ms as text), at
--          most one for a tenant, sku and turn; $$sessions = (session_cluster, session): those that are usage of their
--          own; $$stretches = what short sessions lack (_stretches in drafts.py); $$parts = of an entry, (commitment,
--          covered) of each turn; $$turns = the entries after each turn (covered_turn.sql), from these:
WITH
    entries AS
    (
        SELECT
            toUInt8(0) AS stretched, toString(tenant) AS tenant, toString(project) AS project, toString(queue) AS queue, toString(sku) AS sku, preemptible, list_unit_price, contracted_unit_price,
            (cluster, allocation_id) IN (SELECT session_cluster, session FROM $sessions) AS apart,
            if(apart, toString(cluster), '') AS session_cluster,
            if(apart, allocation_id, '') AS session,
            hour, charge_period_start, toString(cluster) AS cluster, toString(device_id) AS device_id, allocation_id, toString(partition_id) AS partition_id,
            units, charge_period_end,
            toInt128((used_unit_ms + idle_unit_ms + unmetered_unit_ms) * toDecimal128(1000000, 0)) * intDiv({scale_units:UInt64}, device_units) AS rest_0
        FROM ledger
        WHERE (tenant, sku) IN (SELECT tenant, sku FROM $quotas)
            AND allocation_id != '' AND contracted_unit_price IS NOT NULL
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
        UNION ALL
        SELECT
            1, tenant, project, '', sku, false, toDecimal64OrNull(list_unit_price, 9), toDecimal64OrNull(contracted_unit_price, 9),
            0, '', '', toDateTime(hour, 'UTC'), toDateTime64(hour, 3, 'UTC'), '', '', '', '', 0, toDateTime64(hour, 3, 'UTC'), toInt128(lacking)
        FROM $stretches
        WHERE (tenant, sku) IN (SELECT tenant, sku FROM $quotas)
    )
SELECT
    part.1 AS commitment, stretched, tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session,
    sum(part.2) AS covered_micro_ms
FROM $turns
ARRAY JOIN $parts AS part
WHERE part.2 > 0
GROUP BY commitment, stretched, tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session
ORDER BY commitment, stretched, tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session
