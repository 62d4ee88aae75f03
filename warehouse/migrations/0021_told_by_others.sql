-- Another's job can make any event but an end of one's own: a requeued job's `submitted` told whose job took its place.

-- One row: an event. To a tenant, what another's job may have caused names nobody, neither actor nor message, unless its
-- actor is a job of its own; a change of size or a pause that tells no actor is its own. The number of the scheduler's
-- decision is left out, too: its gaps would count what everybody else does.
CREATE OR REPLACE VIEW told_events AS
WITH
    (SELECT yes FROM sees_all) AS all_told,
    event IN ('finished', 'failed', 'cancelled', 'rejected')
        OR (event = 'submitted' AND lower(reason) != 'requeued')
        OR (event NOT IN ('submitted', 'preempted') AND actor = '')
        OR all_told
        OR (cluster, actor) IN (SELECT cluster, workload_id FROM allocations WHERE NOT (SELECT yes FROM sees_all)) AS named
SELECT e.* REPLACE (
    if(named, e.actor, '') AS actor,
    multiIf(all_told, e.message, named, replaceRegexpOne(e.message, '^\\{"sequence":[0-9]+,?', '{'), '') AS message
)
FROM events AS e;
