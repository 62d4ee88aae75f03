-- A condition: whether a job belongs to the chosen tenants and projects. The books decide, by its first placement; for a
-- job without one, its source. A job that was reported as theirs but paid by others is not theirs.
-- Parameters: tenants, projects Array(String), empty: all
allocation_hash IN
(
    SELECT allocation_hash
    FROM allocations
    WHERE allocation_hash IN
    (
        SELECT allocation_hash
        FROM allocations
        WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    )
    GROUP BY allocation_hash
    HAVING (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, argMin(tenant, start_at)))
        AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, argMin(project, start_at)))
)
OR
(
    (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    AND allocation_hash NOT IN
    (
        SELECT allocation_hash
        FROM allocations
        WHERE allocation_hash IN
        (
            SELECT allocation_hash
            FROM events
            WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
                AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
        )
    )
)
