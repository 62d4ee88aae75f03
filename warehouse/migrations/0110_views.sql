-- Views for analysts: stable names and units over tables that may change. GPU-hours and costs are decimals of nine digits, cut,
-- not rounded; a price or a measurement that nobody knows is NULL, never 0. Costs are before what invoices add (minimums,
-- commitments, discounts, taxes).

-- One row: an event. To a tenant, what another's job may have caused names nobody, neither actor nor message, unless its
-- actor is a job of its own; a change of size or a pause without an actor is its own. The number of the scheduler's
-- decision is left out, too: its gaps would count what everybody else does.
CREATE OR REPLACE VIEW visible_events AS
WITH
    (SELECT yes FROM sees_all) AS unrestricted,
    event IN ('finished', 'failed', 'cancelled', 'rejected')
        OR (event = 'submitted' AND lower(reason) != 'requeued')
        OR (event NOT IN ('submitted', 'preempted') AND actor = '')
        OR unrestricted
        OR (cluster, actor) IN (SELECT cluster, workload_id FROM allocations WHERE NOT (SELECT yes FROM sees_all)) AS named
SELECT e.* REPLACE (
    if(named, e.actor, '') AS actor,
    multiIf(unrestricted, e.message, named, replaceRegexpOne(e.message, '^\\{"sequence":[0-9]+,?', '{'), '') AS message
)
FROM events AS e;

-- Views for analysts: stable names and units over tables that may change. GPU-hours and costs are decimals of nine
-- digits, cut, not rounded; a price or a measurement that nobody knows is NULL, never 0. Costs are before what invoices
-- add (minimums, commitments, discounts, taxes).
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
    preemptible           Bool COMMENT 'whether it may be preempted',
    allocated_gpu_hours   Decimal(38, 9) COMMENT 'used + idle + unmetered',
    used_gpu_hours        Decimal(38, 9) COMMENT 'utilization x metered time',
    idle_gpu_hours        Decimal(38, 9) COMMENT 'metered and not used',
    unmetered_gpu_hours   Decimal(38, 9) COMMENT 'held while no usable telemetry speaks of it: unknown, not idle',
    estimated             String COMMENT 'empty, or what was estimated and how'
)
AS SELECT
    hour, cluster, tenant, project, cost_center, queue, workload_id, allocation_id, node, device_id, model, pool,
    partition_profile, preemptible,
    toDecimal128(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms), 9) / (3600000 * device_units) AS allocated_gpu_hours,
    toDecimal128(sum(used_unit_ms), 9) / (3600000 * device_units) AS used_gpu_hours,
    toDecimal128(sum(idle_unit_ms), 9) / (3600000 * device_units) AS idle_gpu_hours,
    toDecimal128(sum(unmetered_unit_ms), 9) / (3600000 * device_units) AS unmetered_gpu_hours,
    estimated
FROM ledger
WHERE allocation_id != ''
GROUP BY
    hour, cluster, tenant, project, cost_center, queue, workload_id, allocation_id, node, device_id, model, pool,
    partition_profile, preemptible, estimated, device_units
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
    node, device_id, model, pool, partition_profile, sku,
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

CREATE OR REPLACE VIEW v_capacity_hourly
(
    hour                  DateTime('UTC') COMMENT 'the closed hour, its start',
    cluster               String COMMENT 'as its collector calls it',
    pool                  String COMMENT 'of the device',
    model                 String COMMENT 'of the device',
    devices               UInt64 COMMENT 'how many, those that were down included',
    capacity_gpu_hours    Decimal(38, 9) COMMENT 'used + idle + unmetered + unallocated + unavailable',
    used_gpu_hours        Decimal(38, 9) COMMENT 'utilization x metered time',
    idle_gpu_hours        Decimal(38, 9) COMMENT 'held, metered and not used',
    unmetered_gpu_hours   Decimal(38, 9) COMMENT 'held, use unknown',
    unallocated_gpu_hours Decimal(38, 9) COMMENT 'available, held by nobody',
    unavailable_gpu_hours Decimal(38, 9) COMMENT 'down or drained, also while held'
)
AS SELECT
    hour, cluster, pool, model, uniqExact(device_id) AS devices,
    used_gpu_hours + idle_gpu_hours + unmetered_gpu_hours + unallocated_gpu_hours + unavailable_gpu_hours AS capacity_gpu_hours,
    sum(toDecimal128(used_unit_ms, 9) / (3600000 * device_units)) AS used_gpu_hours,
    sum(toDecimal128(idle_unit_ms, 9) / (3600000 * device_units)) AS idle_gpu_hours,
    sum(toDecimal128(unmetered_unit_ms, 9) / (3600000 * device_units)) AS unmetered_gpu_hours,
    sum(toDecimal128(unallocated_unit_ms, 9) / (3600000 * device_units)) AS unallocated_gpu_hours,
    sum(toDecimal128(unavailable_unit_ms, 9) / (3600000 * device_units)) AS unavailable_gpu_hours
FROM ledger
GROUP BY hour, cluster, pool, model
COMMENT 'One row: where the GPU-hours of a pool and model went in a closed hour.';

CREATE OR REPLACE VIEW v_allocations
(
    cluster           String COMMENT 'as its collector calls it',
    source            String COMMENT 'which scheduler reported it',
    allocation_id     String COMMENT 'the right to a share of a device, as its source calls it',
    workload_id       String COMMENT 'pod UID, job id or service',
    tenant            String COMMENT 'who pays; empty: nobody was named',
    project           String COMMENT 'the tenant''s part: namespace or account',
    cost_center       String COMMENT 'by the tenants'' mapping; empty: none',
    queue             String COMMENT 'where it waited',
    priority          Nullable(Int64) COMMENT 'as the source reported it; NULL: not reported',
    preemptible       Bool COMMENT 'whether it may be preempted',
    node              String COMMENT 'host name',
    device_id         String COMMENT 'vendor UUID',
    partition_id      String COMMENT 'empty: the whole device',
    partition_profile String COMMENT 'e.g. 1g.10gb; empty: the whole device',
    units             UInt32 COMMENT 'of the device',
    start_at          DateTime64(3, 'UTC') COMMENT 'inclusive',
    end_at            Nullable(DateTime64(3, 'UTC')) COMMENT 'NULL: still held at the last close',
    held_seconds      Nullable(Float64) COMMENT 'NULL: still held',
    estimated         String COMMENT 'empty, or what was estimated and how'
)
AS SELECT
    cluster, source, allocation_id, workload_id, tenant, project, cost_center, queue, priority, preemptible, node,
    device_id, partition_id, partition_profile, units, start_at, end_at,
    dateDiff('millisecond', start_at, end_at) / 1000 AS held_seconds,
    estimated
FROM allocations
COMMENT 'One row: an allocation held units of a device during [start_at, end_at), as the last close decided.';

CREATE OR REPLACE VIEW v_queue_wait
(
    cluster       String COMMENT 'as its collector calls it',
    source        String COMMENT 'which scheduler reported it',
    allocation_id String COMMENT 'the right to a share of a device, as its source calls it',
    workload_id   String COMMENT 'pod UID, job id or service',
    tenant        String COMMENT 'who pays, where it was placed and closed; else as the source reported it',
    project       String COMMENT 'the tenant''s part: namespace or account',
    queue         String COMMENT 'where it waited',
    priority      Nullable(Int64) COMMENT 'as the source reported it; NULL: not reported',
    gpus          Nullable(Float64) COMMENT 'requested',
    submitted_at  DateTime64(3, 'UTC') COMMENT 'reported first',
    started_at    Nullable(DateTime64(3, 'UTC')) COMMENT 'for the first time; NULL: not yet',
    ended_at      Nullable(DateTime64(3, 'UTC')) COMMENT 'NULL: not over',
    wait_seconds  Nullable(Float64) COMMENT 'from submitted to started; NULL: it did not start',
    preemptions   UInt64 COMMENT 'how often it was preempted',
    last_event    String COMMENT 'the newest of its events',
    last_reason   String COMMENT 'the scheduler''s word with the last event'
)
AS SELECT
    w.cluster AS cluster, w.newest.5 AS source, w.allocation_id AS allocation_id, w.newest.1 AS workload_id,
    if(p.allocation_id != '', p.tenant, w.newest.2) AS tenant,
    if(p.allocation_id != '', p.project, w.newest.3) AS project,
    w.newest.4 AS queue, w.newest.6 AS priority, w.newest.7 AS gpus,
    w.submitted_at AS submitted_at, w.started_at AS started_at, w.ended_at AS ended_at,
    dateDiff('millisecond', w.submitted_at, w.started_at) / 1000 AS wait_seconds,
    w.preemptions AS preemptions, w.last.1 AS last_event, w.last.2 AS last_reason
FROM
(
    SELECT
        cluster, allocation_id,
        argMax((e.workload_id, e.tenant, e.project, e.queue, e.source, e.priority, e.gpus), (e.tenant != '', e.queue != '', e.ts)) AS newest,
        minIf(e.ts, e.event = 'submitted') AS submitted_at,
        minOrNullIf(e.ts, e.event = 'started') AS started_at,
        maxOrNullIf(e.ts, e.event IN ('finished', 'failed', 'cancelled', 'rejected')) AS ended_at,
        uniqExactIf(e.ts, e.event = 'preempted') AS preemptions,
        argMax((e.event, e.reason), e.ts) AS last
    FROM events AS e
    GROUP BY cluster, allocation_id
    HAVING countIf(e.event = 'submitted') > 0
) AS w
LEFT JOIN
(
    SELECT cluster, allocation_id, argMin(tenant, start_at) AS tenant, argMin(project, start_at) AS project
    FROM allocations
    GROUP BY cluster, allocation_id
) AS p ON w.cluster = p.cluster AND w.allocation_id = p.allocation_id
COMMENT 'One row: an allocation that was submitted, and how long it waited.';

CREATE OR REPLACE VIEW v_events
(
    ts            DateTime64(3, 'UTC') COMMENT 'when it happened',
    cluster       String COMMENT 'as its collector calls it',
    source        String COMMENT 'which scheduler reported it',
    allocation_id String COMMENT 'the right to a share of a device, as its source calls it',
    workload_id   String COMMENT 'pod UID, job id or service',
    event         String COMMENT 'submitted, started, resized, suspended, resumed, preempted, finished, failed, cancelled, rejected',
    tenant        String COMMENT 'who pays, where it was placed and closed; else as the source reported it',
    project       String COMMENT 'the tenant''s part: namespace or account',
    queue         String COMMENT 'where it waited',
    priority      Nullable(Int64) COMMENT 'as the source reported it; NULL: not reported',
    gpus          Nullable(Float64) COMMENT 'requested',
    node          String COMMENT 'host name',
    device_id     String COMMENT 'vendor UUID',
    partition_id  String COMMENT 'empty: the whole device',
    units         Nullable(UInt32) COMMENT 'of the device; NULL: all',
    reason        String COMMENT 'the scheduler''s word',
    message       String COMMENT 'in full; to a tenant empty where it would name who else''s job took the place',
    actor         String COMMENT 'who did it, where the source says; to a tenant as the message'
)
AS SELECT
    e.ts AS ts, e.cluster AS cluster, e.source AS source, e.allocation_id AS allocation_id, e.workload_id AS workload_id,
    e.event AS event,
    if(p.allocation_id != '', p.tenant, e.tenant) AS tenant,
    if(p.allocation_id != '', p.project, e.project) AS project,
    e.queue AS queue, e.priority AS priority, e.gpus AS gpus, e.node AS node, e.device_id AS device_id,
    e.partition_id AS partition_id, e.units AS units, e.reason AS reason, e.message AS message, e.actor AS actor
FROM visible_events AS e
LEFT JOIN
(
    SELECT cluster, allocation_id, argMin(tenant, start_at) AS tenant, argMin(project, start_at) AS project
    FROM allocations
    GROUP BY cluster, allocation_id
) AS p ON e.cluster = p.cluster AND e.allocation_id = p.allocation_id
COMMENT 'One row: something happened to an allocation, as its source reported it. Rows sent twice may show twice.';

CREATE OR REPLACE VIEW v_invoices
(
    number        String COMMENT 'of the document',
    issuer        String COMMENT 'who bills',
    tenant        String COMMENT 'who pays; empty: nobody was named',
    month         String COMMENT 'like 2026-10, in the billing zone',
    document_type String COMMENT 'invoice or credit_note',
    status        String COMMENT 'issued or void',
    references    String COMMENT 'of a credit note: the invoice it credits',
    currency      String COMMENT 'of the amounts',
    net           Nullable(Decimal(38, 9)) COMMENT 'before taxes',
    tax           Nullable(Decimal(38, 9)) COMMENT 'NULL: the document has none',
    amount        Decimal(38, 9) COMMENT 'net + tax',
    due           Nullable(Decimal(38, 9)) COMMENT 'amount less what was prepaid',
    issued_at     DateTime64(3, 'UTC') COMMENT 'when it was numbered'
)
AS SELECT
    i.number AS number, i.issuer AS issuer, i.tenant AS tenant,
    JSONExtractString(i.document, 'period', 'month') AS month,
    if(JSONExtractString(i.document, 'document_type') = 'credit_note', 'credit_note', 'invoice') AS document_type,
    if(void.number != '', 'void', 'issued') AS status,
    JSONExtractString(i.document, 'references') AS references,
    i.currency AS currency,
    toDecimal128OrNull(JSONExtractString(i.document, 'totals', 'net'), 9) AS net,
    toDecimal128OrNull(JSONExtractString(i.document, 'totals', 'tax'), 9) AS tax,
    i.total AS amount,
    toDecimal128OrNull(JSONExtractString(i.document, 'totals', 'due'), 9) AS due,
    i.issued_at AS issued_at
FROM (SELECT * FROM invoices FINAL) AS i
LEFT JOIN (SELECT number FROM voided_invoices FINAL) AS void ON i.number = void.number
COMMENT 'One row: an issued invoice or credit note.';

CREATE OR REPLACE VIEW v_invoice_lines
(
    number                String COMMENT 'of the document',
    tenant                String COMMENT 'who pays; empty: nobody was named',
    month                 String COMMENT 'like 2026-10, in the billing zone',
    status                String COMMENT 'issued or void',
    line                  UInt32 COMMENT 'from 1',
    kind                  String COMMENT 'usage, minimum, energy, memory, commitment, discount, shared, credit, tax',
    project               String COMMENT 'the tenant''s part: namespace or account',
    sku                   String COMMENT 'of the rate; empty: none',
    description           String COMMENT 'as printed',
    quantity              Nullable(Decimal(38, 9)) COMMENT 'NULL: the line is an amount alone',
    unit                  String COMMENT 'of the quantity; empty: none',
    contracted_unit_price Nullable(Decimal(38, 9)) COMMENT 'per unit; NULL: none',
    billed_cost           Nullable(Decimal(38, 9)) COMMENT 'exact',
    amount                Nullable(Decimal(38, 9)) COMMENT 'rounded once for the whole invoice',
    currency              String COMMENT 'of the amounts',
    charge_class          String COMMENT 'empty or Correction'
)
AS SELECT
    i.number AS number, i.tenant AS tenant, JSONExtractString(i.document, 'period', 'month') AS month,
    if(void.number != '', 'void', 'issued') AS status,
    toUInt32(JSONExtractUInt(entry, 'line')) AS line,
    JSONExtractString(entry, 'kind') AS kind, JSONExtractString(entry, 'project') AS project,
    JSONExtractString(entry, 'sku') AS sku, JSONExtractString(entry, 'description') AS description,
    toDecimal128OrNull(JSONExtractString(entry, 'quantity'), 9) AS quantity,
    JSONExtractString(entry, 'unit') AS unit,
    toDecimal128OrNull(JSONExtractString(entry, 'contracted_unit_price'), 9) AS contracted_unit_price,
    toDecimal128OrNull(JSONExtractString(entry, 'billed_cost'), 9) AS billed_cost,
    toDecimal128OrNull(JSONExtractString(entry, 'amount'), 9) AS amount,
    i.currency AS currency, JSONExtractString(entry, 'charge_class') AS charge_class
FROM (SELECT *, arrayJoin(JSONExtractArrayRaw(document, 'lines')) AS entry FROM invoices FINAL) AS i
LEFT JOIN (SELECT number FROM voided_invoices FINAL) AS void ON i.number = void.number
COMMENT 'One row: a line of an issued invoice or credit note.';

CREATE OR REPLACE VIEW v_energy
(
    hour                DateTime('UTC') COMMENT 'the closed hour, its start',
    cluster             String COMMENT 'as its collector calls it',
    tenant              String COMMENT 'who pays; empty with held = false: the platform''s own time',
    project             String COMMENT 'the tenant''s part: namespace or account',
    queue               String COMMENT 'where it waited',
    workload_id         String COMMENT 'pod UID, job id or service',
    allocation_id       String COMMENT 'the right to a share of a device, as its source calls it',
    node                String COMMENT 'host name',
    device_id           String COMMENT 'vendor UUID',
    model               String COMMENT 'of the device',
    pool                String COMMENT 'of the device',
    held                Bool COMMENT 'whether an allocation held it',
    kwh                 Nullable(Decimal(38, 9)) COMMENT 'of the device, without PUE; NULL: not measured',
    measured_gpu_hours  Decimal(38, 9) COMMENT 'of its GPU-hours, those in which power was measured',
    memory_gib_hours    Nullable(Decimal(38, 9)) COMMENT 'NULL: not measured'
)
AS SELECT
    hour, cluster, tenant, project, queue, workload_id, allocation_id, node, device_id, model, pool,
    allocation_id != '' AS held,
    toDecimal128(energy_millijoules, 9) / 3600000000 AS kwh,
    toDecimal128(measured_unit_ms, 9) / (3600000 * device_units) AS measured_gpu_hours,
    toDecimal128(memory_byte_ms, 9) / (1073741824 * 3600000) AS memory_gib_hours
FROM energy
COMMENT 'One row: energy and memory of a holder on a device in a closed hour, where something was measured.';

CREATE OR REPLACE VIEW v_devices
(
    cluster      String COMMENT 'as its collector calls it',
    node         String COMMENT 'host name',
    device_id    String COMMENT 'vendor UUID',
    vendor       String COMMENT 'of the device',
    model        String COMMENT 'of the device',
    memory_bytes Nullable(UInt64) COMMENT 'NULL: not reported',
    units        UInt32 COMMENT '1; 7 or 4 under MIG; N for N replicas',
    pool         String COMMENT 'of the device',
    state        String COMMENT 'available, unavailable or removed',
    changed_at   DateTime64(3, 'UTC') COMMENT 'last reported'
)
AS SELECT
    cluster, newest.1 AS node, device_id, newest.2 AS vendor, newest.3 AS model, newest.4 AS memory_bytes,
    newest.5 AS units, newest.6 AS pool, toString(newest.7) AS state, changed_at
FROM
(
    SELECT
        cluster, device_id, max(ts) AS changed_at,
        argMax((d.node, d.vendor, d.model, d.memory_bytes, d.units, d.pool, d.state), (d.ts, d.state)) AS newest
    FROM devices AS d
    GROUP BY cluster, device_id
)
COMMENT 'One row: a device as it was last reported.';
