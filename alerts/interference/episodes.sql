-- One row: an episode, see the view interference_episodes; the open ones first.
-- Params:  (since, until].
SELECT
    cluster, workload_id, service, tenant, identity, started_at, raised_at, disturbed_until, ended_at, disturbed_windows,
    mean_slowdown, max_slowdown, lost_gpu_seconds, toString(grade) AS grade, channels, neighbours,
    neighbour_identities
FROM interference_episodes(since = {since:DateTime64(3, 'UTC')}, until = {until:DateTime64(3, 'UTC')})
ORDER BY ended_at IS NULL DESC, raised_at DESC, cluster, workload_id, service
