-- One row: the tenant that pays for claims of a combination during [from_ms, to_ms) (ms since the epoch). The rows of a
-- combination cover all time; without a mapping there are none, and the reported tenant pays.
CREATE TABLE {owners:Identifier}
(
    tenant        String,
    project       String,
    queue         String,
    cluster       String,
    source        String,
    workloads     String COMMENT 'as 0101: which workload patterns match',
    from_ms       Int64,
    to_ms         Int64,
    to_tenant     String,
    to_project    String,
    cost_center   String,
    unmapped      UInt8 COMMENT '1: no rule fits',
    combination   UInt64 MATERIALIZED cityHash64(tenant, project, queue, cluster, source, workloads)
)
ENGINE = Memory
