-- Events as whoever asks may see them.

-- One row: an event. To a tenant, a preemption by a job that is not its own names nobody: neither actor nor message.
CREATE OR REPLACE VIEW told_events AS
WITH
    event != 'preempted'
        OR (SELECT yes FROM sees_all)
        OR (cluster, actor) IN (SELECT cluster, workload_id FROM allocations WHERE NOT (SELECT yes FROM sees_all)) AS named
SELECT e.* REPLACE (if(named, e.actor, '') AS actor, if(named, e.message, '') AS message)
FROM events AS e;

CREATE OR REPLACE VIEW v_events
(
    ts            DateTime64(3, 'UTC') COMMENT 'when it happened',
    cluster       String COMMENT 'as its collector calls it',
    source        String COMMENT 'which scheduler told it',
    allocation_id String COMMENT 'the right to a share of a device, as its source calls it',
    workload_id   String COMMENT 'pod UID, job id or service',
    event         String COMMENT 'submitted, started, resized, suspended, resumed, preempted, finished, failed, cancelled, rejected',
    tenant        String COMMENT 'who pays, where it was placed and closed; else as the source told it',
    project       String COMMENT 'the tenant''s part: namespace or account',
    queue         String COMMENT 'where it waited',
    priority      Nullable(Int64) COMMENT 'as the source told it; NULL: not told',
    gpus          Nullable(Float64) COMMENT 'requested',
    node          String COMMENT 'host name',
    device_id     String COMMENT 'vendor UUID',
    partition_id  String COMMENT 'empty: the whole device',
    units         Nullable(UInt32) COMMENT 'of the device; NULL: all',
    reason        String COMMENT 'the scheduler''s word',
    message       String COMMENT 'in full; to a tenant empty where it would name who else''s job took the place',
    actor         String COMMENT 'who did it, where the source tells; to a tenant as the message'
)
AS SELECT
    e.ts AS ts, e.cluster AS cluster, e.source AS source, e.allocation_id AS allocation_id, e.workload_id AS workload_id,
    e.event AS event,
    if(p.allocation_id != '', p.tenant, e.tenant) AS tenant,
    if(p.allocation_id != '', p.project, e.project) AS project,
    e.queue AS queue, e.priority AS priority, e.gpus AS gpus, e.node AS node, e.device_id AS device_id,
    e.partition_id AS partition_id, e.units AS units, e.reason AS reason, e.message AS message, e.actor AS actor
FROM told_events AS e
LEFT JOIN
(
    SELECT cluster, allocation_id, argMin(tenant, start_at) AS tenant, argMin(project, start_at) AS project
    FROM allocations
    GROUP BY cluster, allocation_id
) AS p ON e.cluster = p.cluster AND e.allocation_id = p.allocation_id
COMMENT 'One row: something happened to an allocation, as its source told it. Rows sent twice may show twice.';
