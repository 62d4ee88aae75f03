-- One row: a ledger entry of the platform's own time in [start, end): unallocated, unavailable, or held without a known
-- tenant.
-- Params:  facts = the table; start, end = the slice; billing_start, billing_end = the month; issuer; rate_card; parts,
--          part.
INSERT INTO {facts:Identifier}
(
    kind, tenant, project, queue, cost_center, issuer, currency, category, frequency, description,
    period_start, period_end, quantity, consumed, unit, list_unit_price, contracted_unit_price,
    list_cost, contracted_cost, billed_cost, effective_cost, sku, meter, cluster, node, device_id, model,
    partition_profile, workload_id, allocation_id, run, rate_card,
    allocated_seconds, used_seconds, idle_seconds, unmetered_seconds, used_cost
)
WITH
    toDecimal128('0.000000000000001', 15) AS least_quantity,
    toDecimal128('0.000000001', 9) AS least_seconds,
    parts_of_entries AS
    (
        SELECT
            *,
            part.1 AS kind,
            part.2 AS micro,
            kind = 'unattributed' AS held,
            toInt128(used_unit_ms * toDecimal128(1000000, 0)) AS used_micro,
            toInt128(unmetered_unit_ms) * 1000000 AS unmetered_micro,
            toInt128(device_units) * 1000000000 AS micro_of_second,
            micro_of_second * 3600 AS micro_of_hour
        FROM ledger
        ARRAY JOIN
        [
            ('unallocated', toInt128(unallocated_unit_ms) * 1000000),
            ('unavailable', toInt128(unavailable_unit_ms) * 1000000),
            ('unattributed', toInt128((used_unit_ms + idle_unit_ms) * toDecimal128(1000000, 0)) + toInt128(unmetered_unit_ms) * 1000000)
        ] AS part
        WHERE tenant = ''
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND ({parts:UInt64} = 1 OR cityHash64(device_id) % {parts:UInt64} = {part:UInt64})
            AND list_unit_price IS NOT NULL
            AND part.2 != 0
    )
SELECT
    kind,
    NULL AS tenant,
    project,
    queue,
    cost_center,
    {issuer:String} AS issuer,
    billing_currency AS currency,
    'Usage' AS category,
    'Usage-Based' AS frequency,
    multiIf(held, 'GPU time of a workload without a tenant', kind = 'unallocated', 'GPU time that nobody held', 'GPU time in which the device was unavailable') AS description,
    greatest(toDateTime64(hour, 3, 'UTC'), {billing_start:DateTime64(3, 'UTC')}) AS period_start,
    least(toDateTime64(hour, 3, 'UTC') + INTERVAL 1 HOUR, {billing_end:DateTime64(3, 'UTC')}) AS period_end,
    toDecimal128(intDiv(micro * toInt128(1000000000000000) + intDiv(micro_of_hour, 2), micro_of_hour), 0) * least_quantity AS quantity,
    quantity AS consumed,
    'Hours' AS unit,
    list_unit_price,
    if(held, contracted_unit_price, list_unit_price) AS contracted_unit_price,
    quantity * assumeNotNull(list_unit_price) AS list_cost,
    quantity * assumeNotNull(if(held, parts_of_entries.contracted_unit_price, list_unit_price)) AS contracted_cost,
    contracted_cost AS billed_cost,
    contracted_cost AS effective_cost,
    sku,
    'GPU Hours' AS meter,
    cluster,
    node,
    device_id,
    model,
    partition_profile,
    workload_id,
    allocation_id,
    run,
    {rate_card:String} AS rate_card,
    if(held, toDecimal128(intDiv(micro * 1000000000 + intDiv(micro_of_second, 2), micro_of_second), 0) * least_seconds, NULL) AS allocated_seconds,
    if(held, toDecimal128(intDiv(used_micro * 1000000000 + intDiv(micro_of_second, 2), micro_of_second), 0) * least_seconds, NULL) AS used_seconds,
    if(held, allocated_seconds - used_seconds - unmetered_seconds, NULL) AS idle_seconds,
    if(held, toDecimal128(intDiv(unmetered_micro * 1000000000 + intDiv(micro_of_second, 2), micro_of_second), 0) * least_seconds, NULL) AS unmetered_seconds,
    if(held, toDecimal128(intDiv(used_micro * toInt128(1000000000000000) + intDiv(micro_of_hour, 2), micro_of_hour), 0) * least_quantity * assumeNotNull(parts_of_entries.contracted_unit_price), NULL) AS used_cost
FROM parts_of_entries
ORDER BY hour, cluster, device_id, charge_period_start, tenant, allocation_id, partition_id, units, kind
SETTINGS max_threads = 1, max_block_size = 8192, min_insert_block_size_rows = 0, min_insert_block_size_bytes = 0
