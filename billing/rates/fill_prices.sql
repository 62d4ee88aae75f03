-- Every subject with each price of its schedule.
INSERT INTO {prices:Identifier}
(
    model, pool, cluster, partition_profile, tenant, queue, priority_level, preemptible, from_ms, to_ms, price, sku,
    list_unit_price, contracted_unit_price, currency
)
SELECT
    model, pool, cluster, partition_profile, tenant, queue, priority_level, preemptible, from_ms, to_ms,
    bitShiftLeft(number, 24) + position + 1 AS price,
    sku, list_unit_price, contracted_unit_price, currency
FROM {price_subjects:Identifier} AS subjects
INNER JOIN {price_schedules:Identifier} AS schedules ON subjects.schedule = schedules.schedule
