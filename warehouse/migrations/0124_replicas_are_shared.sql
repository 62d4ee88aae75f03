-- A replica of a device or MIG instance (NVIDIA's device plugin calls it GPU-…::N) takes turns with the others: shared, not unknown.

CREATE OR REPLACE VIEW v_usage_hourly
(
    hour                  DateTime('UTC') COMMENT 'the closed hour, its start',
    cluster               String COMMENT 'as its collector calls it',
    tenant                String COMMENT 'who pays; empty: nobody was named',
    project               String COMMENT 'the tenant''s part: namespace or account',
    cost_center           String COMMENT 'by the tenants'' mapping; empty: none',
    queue                 String COMMENT 'where it waited',
    workload_id           String COMMENT 'pod UID, job id or service',
    allocation_id         String COMMENT 'the right to a share of a device, as its source calls it',
    node                  String COMMENT 'host name',
    device_id             String COMMENT 'vendor UUID',
    model                 String COMMENT 'of the device',
    pool                  String COMMENT 'of the device',
    partition_profile     String COMMENT 'e.g. 1g.10gb; empty: the whole device',
    isolation_level       String COMMENT 'what it had of the device: exclusive, partitioned or shared; empty: what is recorded does not say',
    preemptible           Bool COMMENT 'whether it may be preempted',
    allocated_gpu_hours   Decimal(38, 9) COMMENT 'used + idle + unmetered',
    used_gpu_hours        Decimal(38, 9) COMMENT 'utilization x metered time',
    idle_gpu_hours        Decimal(38, 9) COMMENT 'metered and not used',
    unmetered_gpu_hours   Decimal(38, 9) COMMENT 'held while no usable telemetry speaks of it: unknown, not idle',
    estimated             String COMMENT 'empty, or what was estimated and how'
)
AS SELECT
    hour, cluster, tenant, project, cost_center, queue, workload_id, allocation_id, node, device_id, model, pool,
    partition_profile, multiIf(
        match(partition_id, '::[0-9]+$') OR match(device_id, '::[0-9]+$'), 'shared',
        match(partition_profile, '(?i)(^|[^a-z0-9])[0-9]+g\\.[0-9]+gb') OR startsWith(partition_id, 'MIG-'), 'partitioned',
        partition_profile != '' OR partition_id != '' OR startsWith(estimated, 'device unknown'), '',
        units >= device_units, 'exclusive',
        'shared') AS isolation_level,
    preemptible,
    toDecimal128(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms), 9) / (3600000 * device_units) AS allocated_gpu_hours,
    toDecimal128(sum(used_unit_ms), 9) / (3600000 * device_units) AS used_gpu_hours,
    toDecimal128(sum(idle_unit_ms), 9) / (3600000 * device_units) AS idle_gpu_hours,
    toDecimal128(sum(unmetered_unit_ms), 9) / (3600000 * device_units) AS unmetered_gpu_hours,
    estimated
FROM ledger
WHERE allocation_id != ''
GROUP BY
    hour, cluster, tenant, project, cost_center, queue, workload_id, allocation_id, node, device_id, model, pool,
    partition_profile, isolation_level, preemptible, estimated, device_units
COMMENT 'One row: what an allocation held of a device in a closed hour.';

CREATE OR REPLACE VIEW v_charges
(
    charge_period_start   DateTime64(3, 'UTC') COMMENT 'inclusive',
    charge_period_end     DateTime64(3, 'UTC') COMMENT 'exclusive',
    cluster               String COMMENT 'as its collector calls it',
    tenant                String COMMENT 'who pays; empty: nobody was named',
    project               String COMMENT 'the tenant''s part: namespace or account',
    cost_center           String COMMENT 'by the tenants'' mapping; empty: none',
    queue                 String COMMENT 'where it waited',
    workload_id           String COMMENT 'pod UID, job id or service',
    allocation_id         String COMMENT 'the right to a share of a device, as its source calls it',
    node                  String COMMENT 'host name',
    device_id             String COMMENT 'vendor UUID',
    model                 String COMMENT 'of the device',
    pool                  String COMMENT 'of the device',
    partition_profile     String COMMENT 'e.g. 1g.10gb; empty: the whole device',
    isolation_level       String COMMENT 'what it had of the device: exclusive, partitioned or shared; empty: what is recorded does not say',
    sku                   String COMMENT 'empty: no rate fits, the price is unknown',
    consumed_quantity     Decimal(38, 9) COMMENT 'GPU-hours held, busy or idle',
    list_unit_price       Nullable(Decimal(18, 9)) COMMENT 'per GPU-hour, without regard to the tenant',
    contracted_unit_price Nullable(Decimal(18, 9)) COMMENT 'per GPU-hour, the tenant''s own',
    list_cost             Nullable(Decimal(38, 9)) COMMENT 'at the list price; NULL: unknown',
    billed_cost           Nullable(Decimal(38, 9)) COMMENT 'at the contracted price; NULL: unknown',
    billing_currency      String COMMENT 'of the prices; empty: no rate fits'
)
AS SELECT
    charge_period_start, charge_period_end, cluster, tenant, project, cost_center, queue, workload_id, allocation_id,
    node, device_id, model, pool, partition_profile, multiIf(
        match(partition_id, '::[0-9]+$') OR match(device_id, '::[0-9]+$'), 'shared',
        match(partition_profile, '(?i)(^|[^a-z0-9])[0-9]+g\\.[0-9]+gb') OR startsWith(partition_id, 'MIG-'), 'partitioned',
        partition_profile != '' OR partition_id != '' OR startsWith(estimated, 'device unknown'), '',
        units >= device_units, 'exclusive',
        'shared') AS isolation_level,
    sku,
    toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 9) / (3600000 * device_units) AS consumed_quantity,
    list_unit_price, contracted_unit_price,
    toDecimal128(toDecimal256(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 12) * list_unit_price
        / (3600000 * device_units), 9) AS list_cost,
    toDecimal128(toDecimal256(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 12) * contracted_unit_price
        / (3600000 * device_units), 9) AS billed_cost,
    billing_currency
FROM ledger
WHERE allocation_id != '' AND used_unit_ms + idle_unit_ms + unmetered_unit_ms > 0
COMMENT 'One row: a part of a closed hour in which an allocation held a device at one price. Before what invoices add.';
