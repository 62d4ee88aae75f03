-- Interference as whoever asks may see it.

-- One row: whether the connection sees all tenants. A tenant's sees no row of schema_migrations (access/scope.py).
CREATE OR REPLACE VIEW sees_all AS SELECT count() > 0 AS yes FROM schema_migrations;

-- One row: a workload in one window, see interference_samples. To a tenant, neighbours that are not its own have no name: ''.
CREATE OR REPLACE VIEW interference AS
WITH
    (SELECT yes FROM sees_all) AS all_are_named,
    arrayMap(
        one -> if(
            all_are_named
                OR (cluster, one) IN (SELECT cluster, workload_id FROM allocations WHERE NOT (SELECT yes FROM sees_all)),
            one, ''),
        s.neighbours) AS named
SELECT
    s.* EXCEPT run
    REPLACE (
        named AS neighbours,
        if(has(named, ''), arrayDistinct(named), s.neighbour_identities) AS neighbour_identities)
FROM interference_samples AS s
WHERE (hour, run) IN (SELECT hour, max(run) FROM interference_hours GROUP BY hour);
