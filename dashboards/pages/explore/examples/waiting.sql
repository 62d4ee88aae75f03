SELECT tenant, queue, allocation_id, gpus, submitted_at, last_event, last_reason
FROM v_queue_wait
WHERE started_at IS NULL AND ended_at IS NULL
ORDER BY submitted_at
