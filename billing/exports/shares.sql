-- The same rows, each with its part of what the file charges for its device and period. The parts are the differences
-- of rounded running sums, so that those of one device and period sum to 1 exactly.
-- Params:  facts, shared = tables.
INSERT INTO {shared:Identifier}
WITH
    sum(allocated_seconds) OVER (PARTITION BY cluster, device_id, period_start) AS whole,
    sum(allocated_seconds) OVER (
        PARTITION BY cluster, device_id, period_start
        ORDER BY tenant, allocation_id, workload_id, project, queue, sku, partition_profile, contracted_unit_price, allocated_seconds
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far
SELECT * REPLACE (
    CAST(
        toDecimal128(intDiv(toInt256(assumeNotNull(so_far) * 1000000000) * toInt256('1000000000000'), toInt256(assumeNotNull(whole) * 1000000000)), 0)
        - toDecimal128(intDiv(toInt256(assumeNotNull(so_far - allocated_seconds) * 1000000000) * toInt256('1000000000000'), toInt256(assumeNotNull(whole) * 1000000000)), 0)
        AS Decimal(38, 0)) * toDecimal128('0.000000000001', 12) AS ratio)
FROM {facts:Identifier}
ORDER BY period_start, cluster, device_id, tenant, allocation_id, workload_id, project, queue, sku, partition_profile, contracted_unit_price, allocated_seconds
SETTINGS max_threads = 1, max_block_size = 8192, min_insert_block_size_rows = 0, min_insert_block_size_bytes = 0
