-- One row: how many preemptions were reported in the period.
-- Parameters: start, end DateTime64(3) (UTC); tenants, projects, queues, clusters Array(String), empty: all
SELECT count() AS preemptions
FROM events
WHERE event = 'preempted' AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
    AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
