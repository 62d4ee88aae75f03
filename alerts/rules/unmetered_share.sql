-- One row: a node with devices that are held, and which part of the held time no usable sample covers.
-- Units:   value: 0-1, of the time held within the window; what came before a device was available again is not held.
-- Params:  at; window_seconds; least_seconds = of time held, else nothing is said.
SELECT
    cluster, node,
    sum(held_seconds) AS held_device_seconds,
    1 - sum(covered_seconds) / held_device_seconds AS value,
    uniqExact(allocation_id) AS allocations,
    arrayStringConcat(arraySort(groupUniqArrayIf(allocation_id, covered_seconds < held_seconds / 2)), ' ') AS least_metered
FROM
(
    SELECT
        h.cluster AS cluster, h.node AS node, h.allocation_id AS allocation_id,
        greatest(h.start_at, d.since) AS held_from,
        toFloat64(least({window_seconds:UInt32}, dateDiff('second', held_from, {at:DateTime64(3, 'UTC')}))) AS held_seconds,
        least(held_seconds, arraySum(arrayMap(one -> one.2, arrayFilter(one -> one.3 AND one.1 > held_from, h.samples)))) AS covered_seconds
    FROM held_streams(at = {at:DateTime64(3, 'UTC')}, window_seconds = {window_seconds:UInt32}) AS h
    INNER JOIN devices_at(at = {at:DateTime64(3, 'UTC')}) AS d ON h.cluster = d.cluster AND h.device_id = d.device_id
    WHERE d.state = 'available'
)
GROUP BY cluster, node
HAVING held_device_seconds >= {least_seconds:UInt32}
