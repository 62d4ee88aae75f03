-- One row: how much of a tenant's usage, alike in all that policies ask about, a quota covers: in every hour the dearest
-- first, then the earliest, until the hour's quota is used.
-- Units:   *_micro_ms: millionths of a unit-millisecond on devices of {scale_units:UInt64} units; a quota is per hour.
-- Params:  start, end = [start, end); $$quotas = table of (tenant, sku, commitment, quota_micro_ms as text), at most one
--          for a tenant and sku; $$sessions = (session_cluster, session): those that are usage of their own.
WITH
    toUnixTimestamp64Milli({start:DateTime64(3, 'UTC')}) AS opens,
    toUnixTimestamp64Milli({end:DateTime64(3, 'UTC')}) AS closes,
    entries AS
    (
        SELECT
            commitment, ledger.tenant AS tenant, project, queue, ledger.sku AS sku, preemptible, list_unit_price, contracted_unit_price,
            (cluster, allocation_id) IN (SELECT session_cluster, session FROM $sessions) AS apart,
            if(apart, cluster, '') AS session_cluster,
            if(apart, allocation_id, '') AS session,
            toInt128((used_unit_ms + idle_unit_ms + unmetered_unit_ms) * toDecimal128(1000000, 0)) * intDiv({scale_units:UInt64}, device_units) AS held,
            sum(held) OVER (
                PARTITION BY commitment, hour
                ORDER BY contracted_unit_price DESC, charge_period_start, cluster, device_id, allocation_id, partition_id, units, charge_period_end
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far,
            toUnixTimestamp(hour) * 1000 AS hour_ms,
            intDiv(toInt128(quota_micro_ms) * (least(hour_ms + 3600000, closes) - greatest(hour_ms, opens)), toInt128(3600000)) AS quota
        FROM ledger
        INNER JOIN $quotas AS quotas ON ledger.tenant = quotas.tenant AND ledger.sku = quotas.sku
        WHERE allocation_id != '' AND contracted_unit_price IS NOT NULL
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR
            AND hour < toDateTime({end:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
    )
SELECT
    commitment, tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session,
    sum(greatest(toInt128(0), least(held, quota - (so_far - held)))) AS covered_micro_ms
FROM entries
GROUP BY commitment, tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session
HAVING covered_micro_ms > 0
ORDER BY commitment, tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session
