-- One row: an hour and device of which an entry's price is not what the rate card says that its close computed by.
-- Params:  start, end = hours of [start, end); card = its version; by_cluster (see billing.rates.staging); prices = a table of
--          prices; most = rows.   $$priced_hours = priced_hours.sql.   $$keys: billing/rates/subject_keys.sql.
WITH
    priced_by AS
    (
        SELECT hour FROM ($priced_hours) WHERE rate_card = {card:String}
    ),
    entries AS
    (
        SELECT
            hour, cluster, device_id, tenant, sku, list_unit_price, contracted_unit_price, billing_currency,
            $keys,
            cityHash64(cityHash64(model, pool, if({by_cluster:UInt8}, toString(ledger.cluster), '')), cityHash64(partition_profile, tenant, priced_queue, priority_level, priced_preemptible)) AS subject,
            toUnixTimestamp64Milli(charge_period_start) AS start_ms
        FROM ledger
        WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
    )
SELECT
    hour AS at, cluster AS in_cluster, device_id AS of_device, any(entries.tenant) AS of_tenant,
    any(concat(toString(ifNull(entries.contracted_unit_price, 0)), ' (', entries.sku, ')')) AS found,
    any(if(start_ms < to_ms, concat(toString(prices.contracted_unit_price), ' (', prices.sku, ')'), 'no price')) AS due
FROM entries
ASOF LEFT JOIN {prices:Identifier} AS prices ON entries.subject = prices.subject AND entries.start_ms >= prices.from_ms
WHERE hour IN (SELECT hour FROM priced_by)
    AND (entries.sku, ifNull(toString(entries.list_unit_price), ''), ifNull(toString(entries.contracted_unit_price), ''), entries.billing_currency)
        != if(entries.start_ms < prices.to_ms,
            (prices.sku, toString(prices.list_unit_price), toString(prices.contracted_unit_price), prices.currency), ('', '', '', ''))
GROUP BY hour, cluster, device_id
ORDER BY at, in_cluster, of_device
LIMIT {most:UInt32}
