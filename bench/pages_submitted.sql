-- One row: a submission of a job that started: a third of them up to two hours before, the others up to five seconds; in one of five
-- queues, with one of four last reasons.
INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, priority, gpus, reason, preemptible, batch)
SELECT
    e.ts - toIntervalSecond(if(cityHash64(e.allocation_id) % 3 = 0, cityHash64(e.allocation_id, 1) % 7200, cityHash64(e.allocation_id) % 5)),
    e.cluster, e.source, e.allocation_id, e.workload_id, 'submitted', e.tenant, e.project,
    ['train', 'batch', 'interactive', 'dev', 'nightly'][1 + cityHash64(e.allocation_id, 2) % 5], e.priority, e.gpus,
    ['no free GPU', 'over quota', '', 'fragmentation'][1 + cityHash64(e.allocation_id, 3) % 4], e.preemptible, e.batch
FROM events AS e
WHERE e.event = 'started'
