-- The same charges by day or month and workload: one row for what is alike in everything else.
-- Params:  facts, rolled = tables; grain = day or month; timezone = where days are cut; billing_start, billing_end = the
--          month; by_device = 1: each device of a workload for itself.
INSERT INTO {rolled:Identifier}
SELECT
    kind, tenant, project, queue, cost_center, invoice_id, issuer, currency, category, class, frequency, description,
    if({grain:String} = 'day', greatest(toDateTime64(day, 3, 'UTC'), {billing_start:DateTime64(3, 'UTC')}), {billing_start:DateTime64(3, 'UTC')}) AS period_start,
    if({grain:String} = 'day', least(toDateTime64(next_day, 3, 'UTC'), {billing_end:DateTime64(3, 'UTC')}), {billing_end:DateTime64(3, 'UTC')}) AS period_end,
    sum(quantity) AS quantity, sum(consumed) AS consumed, unit, list_unit_price, contracted_unit_price,
    sum(list_cost) AS list_cost, sum(contracted_cost) AS contracted_cost, sum(billed_cost) AS billed_cost, sum(effective_cost) AS effective_cost,
    sku, meter, commitment, commitment_status, cluster,
    if(uniqExact(facts.node) = 1, any(facts.node), NULL) AS node,
    if(uniqExact(facts.device_id) = 1, any(facts.device_id), NULL) AS device_id,
    model, partition_profile, workload_id, allocation_id, source, max(facts.run) AS run, rate_card,
    sum(allocated_seconds) AS allocated_seconds, sum(used_seconds) AS used_seconds, sum(idle_seconds) AS idle_seconds,
    sum(unmetered_seconds) AS unmetered_seconds, sum(used_cost) AS used_cost, corrects_invoice, rule, CAST(NULL AS Nullable(Decimal(18, 12))) AS ratio
FROM {facts:Identifier} AS facts
GROUP BY
    kind, tenant, project, queue, cost_center, invoice_id, issuer, currency, category, class, frequency, description,
    if({grain:String} = 'day', toDateTime(toDate(facts.period_start, {timezone:String}), {timezone:String}), toDateTime(0, {timezone:String})) AS day,
    if({grain:String} = 'day', toDateTime(toDate(facts.period_start, {timezone:String}) + 1, {timezone:String}), toDateTime(0, {timezone:String})) AS next_day,
    unit, list_unit_price, contracted_unit_price, sku, meter, commitment, commitment_status, cluster,
    if({by_device:UInt8} = 1, facts.device_id, NULL), model, partition_profile, workload_id, allocation_id, source, rate_card,
    corrects_invoice, rule
ORDER BY period_start, kind, tenant, project, queue, workload_id, allocation_id, cluster, device_id, sku, partition_profile, contracted_unit_price, description, period_end, model
SETTINGS max_threads = 1, max_block_size = 8192, min_insert_block_size_rows = 0, min_insert_block_size_bytes = 0
