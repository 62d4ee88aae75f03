-- One row: an event of an allocation or workload, the newest first.   $$where: a condition.
SELECT ts, event, queue, priority, gpus, reason, message
FROM v_events
WHERE $where
ORDER BY ts DESC
LIMIT 20
