-- One row: on a node of these an allocation of before an instant, which goes on after another, holds a device that was
-- assumed for it, or got none: another device on the node could be given to it instead.
-- Parameters: nodes Array(String), since, until DateTime64(3).
SELECT DISTINCT cluster, node
FROM allocations
WHERE node IN {nodes:Array(String)} AND start_at < {until:DateTime64(3, 'UTC')}
    AND (end_at IS NULL OR end_at > {since:DateTime64(3, 'UTC')}) AND startsWith(estimated, 'device unknown')
UNION DISTINCT
SELECT DISTINCT events.cluster AS cluster, events.node AS node
FROM events
WHERE node IN {nodes:Array(String)} AND device_id = '' AND (cluster, allocation_id) IN
(
    SELECT cluster, allocation_id FROM refused_claims
    WHERE reason = 'no_free_device' AND start_at < {until:DateTime64(3, 'UTC')}
        AND (end_at IS NULL OR end_at > {since:DateTime64(3, 'UTC')})
)
