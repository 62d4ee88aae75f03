-- One row: a start or an end of a job that lies in (after, until], as in fleet_events.sql; a batch is an hour's events.
INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, priority, gpus, node, device_id, units, preemptible, batch)
SELECT
    {start:DateTime64(3, 'UTC')} + toIntervalMillisecond(job * 26580000 + if(kind = 'started', 0, 25980000) + device * 7919 % 600000) AS ts,
    'bench', 'bench', concat('job-', toString(device), '-', toString(job)), concat('uid-', toString(device), '-', toString(job)),
    kind, concat('tenant-', toString(device % 200)), concat('project-', toString(device % 60)), 'batch', 0, 1,
    concat('node-', toString(intDiv(device, 8))),
    if(kind = 'started', concat('GPU-', leftPad(toString(device), 8, '0'), '-0000-4000-8000-000000000000'), ''), 1, false,
    cityHash64('events', toStartOfHour(ts))
FROM
(
    SELECT number % {devices:UInt64} AS device, intDiv(number, {devices:UInt64}) AS job
    FROM numbers({devices:UInt64} * toUInt64(ceil({days:UInt32} * 86400000 / 26580000)))
)
ARRAY JOIN ['started', 'finished'] AS kind
WHERE ts > {after:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')}
