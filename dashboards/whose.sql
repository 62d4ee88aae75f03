-- Whether a job is of the tenants and projects chosen: whose its first place was, say the books; of a job without a place its
-- source. A job that was reported as theirs and held by others is none of theirs.
-- Parameters: tenants, projects Array(String), empty: all
(cluster, allocation_id) IN
(
    SELECT cluster, allocation_id
    FROM allocations
    WHERE (cluster, allocation_id) IN
    (
        SELECT cluster, allocation_id
        FROM allocations
        WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    )
    GROUP BY cluster, allocation_id
    HAVING (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, argMin(tenant, start_at)))
        AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, argMin(project, start_at)))
)
OR
(
    (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    AND (cluster, allocation_id) NOT IN
    (
        SELECT cluster, allocation_id
        FROM allocations
        WHERE (cluster, allocation_id) IN
        (
            SELECT cluster, allocation_id
            FROM events
            WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
                AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
        )
    )
)
