-- One row: a ledger entry of a holder in [start, end) whose tenant, project, sku and price stand in {groups}: an hour,
-- device and holder. Quantities are rounded once, here; costs are exact products of them.
-- Params:  facts, groups = tables; start, end = the slice; billing_start, billing_end = the month; parts, part = of the
--          devices or allocations, where a slice is not of time; by_device = 1: by device, 0: by allocation.
INSERT INTO {facts:Identifier}
(
    kind, tenant, project, queue, cost_center, invoice_id, issuer, currency, category, class, frequency, description,
    period_start, period_end, quantity, consumed, unit, list_unit_price, contracted_unit_price,
    list_cost, contracted_cost, billed_cost, effective_cost, sku, meter, cluster, node, device_id, model,
    partition_profile, workload_id, allocation_id, source, run, rate_card,
    allocated_seconds, used_seconds, idle_seconds, unmetered_seconds, used_cost
)
WITH
    toDecimal128('0.000000000000001', 15) AS least_quantity,
    toDecimal128('0.000000001', 9) AS least_seconds,
    entries AS
    (
        SELECT
            *,
            toInt128(used_unit_ms * toDecimal128(1000000, 0)) AS used_micro,
            toInt128(unmetered_unit_ms) * 1000000 AS unmetered_micro,
            toInt128((used_unit_ms + idle_unit_ms) * toDecimal128(1000000, 0)) + unmetered_micro AS held_micro,
            toInt128(device_units) * 1000000000 AS micro_of_second,
            micro_of_second * 3600 AS micro_of_hour
        FROM ledger
        WHERE allocation_id != ''
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND ({parts:UInt64} = 1
                OR cityHash64(if({by_device:UInt8} = 1, device_id, allocation_id)) % {parts:UInt64} = {part:UInt64})
            AND used_unit_ms + idle_unit_ms + unmetered_unit_ms != 0
    ),
    rounded AS
    (
        SELECT
            *,
            toDecimal128(intDiv(held_micro * toInt128(1000000000000000) + intDiv(micro_of_hour, 2), micro_of_hour), 0) * least_quantity AS hours,
            toDecimal128(intDiv(used_micro * toInt128(1000000000000000) + intDiv(micro_of_hour, 2), micro_of_hour), 0) * least_quantity AS used_hours,
            toDecimal128(intDiv(held_micro * 1000000000 + intDiv(micro_of_second, 2), micro_of_second), 0) * least_seconds AS held_seconds,
            toDecimal128(intDiv(used_micro * 1000000000 + intDiv(micro_of_second, 2), micro_of_second), 0) * least_seconds AS used_s,
            toDecimal128(intDiv(unmetered_micro * 1000000000 + intDiv(micro_of_second, 2), micro_of_second), 0) * least_seconds AS unmetered_s
        FROM entries
    )
SELECT
    'usage' AS kind,
    tenant,
    project,
    queue,
    cost_center,
    groups.invoice_id AS invoice_id,
    groups.issuer AS issuer,
    billing_currency AS currency,
    'Usage' AS category,
    NULL AS class,
    'Usage-Based' AS frequency,
    concat('GPU time on ', model, if(partition_profile = '', '', concat(' (', partition_profile, ')')),
        multiIf(estimated = '', '', startsWith(estimated, 'device unknown'), '; only its node was reported, the device is assumed',
            '; its end was never reported and is estimated')) AS description,
    greatest(toDateTime64(hour, 3, 'UTC'), {billing_start:DateTime64(3, 'UTC')}) AS period_start,
    least(toDateTime64(hour, 3, 'UTC') + INTERVAL 1 HOUR, {billing_end:DateTime64(3, 'UTC')}) AS period_end,
    hours AS quantity,
    hours AS consumed,
    'Hours' AS unit,
    list_unit_price,
    contracted_unit_price,
    hours * assumeNotNull(list_unit_price) AS list_cost,
    hours * assumeNotNull(contracted_unit_price) AS contracted_cost,
    if(billed_part IS NULL, contracted_cost, CAST(toDecimal256(contracted_cost, 24) * assumeNotNull(billed_part) AS Decimal(38, 24))) AS billed_cost,
    if(effective_part IS NULL, billed_cost, CAST(toDecimal256(contracted_cost, 24) * assumeNotNull(effective_part) AS Decimal(38, 24))) AS effective_cost,
    sku,
    'GPU Hours' AS meter,
    cluster,
    node,
    device_id,
    model,
    partition_profile,
    workload_id,
    allocation_id,
    sources.source AS source,
    run,
    groups.rate_card AS rate_card,
    held_seconds AS allocated_seconds,
    used_s AS used_seconds,
    held_seconds - used_s - unmetered_s AS idle_seconds,
    unmetered_s AS unmetered_seconds,
    used_hours * assumeNotNull(contracted_unit_price) AS used_cost
FROM rounded
INNER JOIN {groups:Identifier} AS groups USING (tenant, project, sku, list_unit_price, contracted_unit_price)
LEFT ANY JOIN
(
    SELECT cluster, allocation_id, any(source) AS source
    FROM allocations
    WHERE start_at < {end:DateTime64(3, 'UTC')} AND (end_at IS NULL OR end_at > {start:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR)
    GROUP BY cluster, allocation_id
) AS sources USING (cluster, allocation_id)
ORDER BY hour, cluster, device_id, charge_period_start, tenant, allocation_id, partition_id, units
SETTINGS max_threads = 1, max_block_size = 8192, min_insert_block_size_rows = 0, min_insert_block_size_bytes = 0
