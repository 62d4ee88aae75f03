-- One row: a queue in which allocations were preempted within the window.
-- Units:   value: allocations; one that was preempted twice counts once.   example: what was said of one; of a message that is an object
--          (scheduler/records/events.py), its text; '': nothing.
-- Params:  at; window_seconds.
SELECT
    cluster, queue,
    uniqExact(allocation_id) AS value,
    uniqExact(workload_id) AS workloads,
    arrayStringConcat(arraySort(groupUniqArray(tenant)), ', ') AS victims,
    arrayStringConcat(arraySlice(topK(3)(reason), 1, 3), ', ') AS reasons,
    anyIf(text, text != '') AS example
FROM (SELECT *, if(startsWith(message, '{') AND isValidJSON(message), JSONExtractString(message, 'text'), message) AS text FROM events)
WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND event = 'preempted'
GROUP BY cluster, queue
