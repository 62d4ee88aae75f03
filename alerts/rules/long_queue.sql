-- One row: a queue in which somebody waits, and how long the oldest has.
-- Units:   value: seconds.   cause: what the scheduler says of the oldest; where it says nothing, what the facts allow.
--          Of a message that is an object (scheduler/records/events.py), its text.
-- Shape:   free and held devices are those of the pools that the queue used within {pool_days} days.
-- Params:  at; pool_days.
WITH
    waiting AS (SELECT * FROM waiters(at = {at:DateTime64(3, 'UTC')})),
    devices AS (SELECT * FROM devices_at(at = {at:DateTime64(3, 'UTC')}) WHERE state = 'available'),
    held AS (SELECT cluster, device_id, any(tenant) AS tenant FROM holders(at = {at:DateTime64(3, 'UTC')}) WHERE device_id != '' GROUP BY cluster, device_id),
    queue_pools AS
    (
        SELECT DISTINCT e.cluster AS cluster, e.queue AS queue, d.pool AS pool
        FROM events AS e INNER JOIN devices AS d ON e.cluster = d.cluster AND e.device_id = d.device_id
        WHERE e.event IN ('started', 'resized') AND e.ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({pool_days:UInt32}) AND e.ts <= {at:DateTime64(3, 'UTC')}
    ),
    capacity AS
    (
        SELECT
            q.cluster AS cluster, q.queue AS queue,
            arrayStringConcat(arraySort(groupUniqArray(q.pool)), ' ') AS pools,
            uniqExact(d.device_id) AS devices,
            uniqExactIf(d.device_id, h.device_id = '') AS free,
            arrayStringConcat(arrayFilter(t -> t != '', topK(3)(h.tenant)), ', ') AS held_by
        FROM queue_pools AS q
        INNER JOIN devices AS d ON q.cluster = d.cluster AND q.pool = d.pool
        LEFT JOIN held AS h ON d.cluster = h.cluster AND d.device_id = h.device_id
        GROUP BY q.cluster, q.queue
    ),
    by_queue AS
    (
        SELECT
            cluster, queue,
            count() AS waiting,
            sum(gpus) AS gpus_asked,
            min(submitted_at) AS oldest_since,
            argMin((allocation_id, workload_id, tenant, gpus, priority, reason, text), (submitted_at, allocation_id)) AS oldest,
            countIf(priority > oldest_priority) AS ahead
        FROM (SELECT *, if(startsWith(message, '{') AND isValidJSON(message), JSONExtractString(message, 'text'), message) AS text, first_value(priority) OVER (PARTITION BY cluster, queue ORDER BY submitted_at, allocation_id) AS oldest_priority FROM waiting)
        GROUP BY cluster, queue
    )
SELECT
    b.cluster AS cluster, b.queue AS queue,
    dateDiff('second', oldest_since, {at:DateTime64(3, 'UTC')}) AS value,
    waiting, gpus_asked, oldest_since, ahead,
    oldest.1 AS oldest_allocation_id, oldest.2 AS oldest_workload_id, oldest.3 AS oldest_tenant, oldest.4 AS oldest_gpus,
    ifNull(c.free, 0) AS free_devices,
    ifNull(c.devices, 0) AS pool_devices,
    multiIf(
        oldest.6 != '', concat(oldest.6, if(oldest.7 = '', '', concat(': ', oldest.7))),
        pool_devices = 0, 'unknown: nothing of this queue was placed yet, and the scheduler gives no reason',
        ahead > 0, concat(toString(ahead), ' of higher priority wait too; ', toString(free_devices), ' of ', toString(pool_devices), ' devices are free'),
        ifNull(oldest.4 > free_devices, false), concat('capacity: it asks for ', toString(oldest.4), ' GPUs, ', toString(free_devices), ' of ', toString(pool_devices),
            ' devices in ', if(c.pools = '', 'the pool', c.pools), ' are free; the others are held by ', c.held_by),
        concat(toString(free_devices), ' of ', toString(pool_devices), ' devices are free: quota, fragmentation or policy holds it back')) AS cause
FROM by_queue AS b
LEFT JOIN capacity AS c ON b.cluster = c.cluster AND b.queue = c.queue
