-- One row: an entry, how much of it a quota covers in turn $turn of its tenant's (0: it has none), and what is left then.
-- $$before = the turn before; $$rows = the entries, or the same after that turn; the rest as in covered.sql.
SELECT
    entries.*,
    ifNull(quotas.commitment, 0) AS commitment_$turn,
    toInt64(toUnixTimestamp(entries.hour)) * 1000 AS hour_ms_$turn,
    least(hour_ms_$turn + 3600000, toUnixTimestamp64Milli({end:DateTime64(3, 'UTC')}))
        - greatest(hour_ms_$turn, toUnixTimestamp64Milli({start:DateTime64(3, 'UTC')})) AS part_ms_$turn,
    intDiv(toInt128(ifNull(quotas.quota_micro_ms, '0')) * part_ms_$turn, toInt128(3600000)) AS quota_$turn,
    sum(rest_$before) OVER (
        PARTITION BY commitment_$turn, hour
        ORDER BY stretched, contracted_unit_price DESC, charge_period_start, cluster, device_id, allocation_id, partition_id, units, charge_period_end, project, list_unit_price
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far_$turn,
    greatest(toInt128(0), least(rest_$before, quota_$turn - (so_far_$turn - rest_$before))) AS covered_$turn,
    rest_$before - covered_$turn AS rest_$turn
FROM $rows AS entries
LEFT JOIN (SELECT * FROM $quotas WHERE turn = $turn) AS quotas ON entries.tenant = quotas.tenant AND entries.sku = quotas.sku
