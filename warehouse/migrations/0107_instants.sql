-- Views of the facts at one instant, for alert rules. Their parameter: at.

-- One row: an allocation that holds a device, or a part of it, at an instant, as its source's events report it; the
-- newest placing event names the devices, and one that is suspended or over holds nothing.
-- start_at: since when without a break. gpus: as requested.
CREATE OR REPLACE VIEW holders AS
SELECT
    cluster, allocation_id, start_at,
    place.2 AS node, place.3 AS device_id, place.4 AS partition_id, place.5 AS units, place.6 AS workload_id,
    place.7 AS tenant, place.8 AS project, place.9 AS queue, place.10 AS priority, place.11 AS preemptible,
    place.12 AS gpus
FROM
(
    SELECT
        cluster, allocation_id,
        maxIf(ts, event IN ('started', 'resized', 'resumed')) AS held_from,
        maxIf(ts, event IN ('suspended', 'preempted', 'finished', 'failed', 'cancelled', 'rejected')) AS ended_at,
        maxIf(ts, event IN ('started', 'resumed')) AS start_at,
        groupUniqArrayIf(
            (ts, e.node, e.device_id, e.partition_id, e.units, e.workload_id, e.tenant, e.project, e.queue, e.priority,
             ifNull(e.preemptible, false), e.gpus),
            event IN ('started', 'resized') OR (event = 'resumed' AND e.device_id != '')) AS places,
        arrayMax(arrayMap(place -> place.1, places)) AS placed_at
    FROM events AS e
    WHERE ts <= {at:DateTime64(3, 'UTC')} AND event != 'submitted'
    GROUP BY cluster, allocation_id
    HAVING held_from > ended_at
)
ARRAY JOIN arrayFilter(place -> place.1 = placed_at, places) AS place;

-- One row: an allocation that waits at an instant: submitted, and neither started nor over since.
CREATE OR REPLACE VIEW waiters AS
SELECT
    cluster, allocation_id, submitted_at, reported_at,
    newest.1 AS workload_id, newest.2 AS tenant, newest.3 AS project, newest.4 AS queue, newest.5 AS priority,
    newest.6 AS gpus, newest.7 AS reason, newest.8 AS message
FROM
(
    SELECT
        cluster, allocation_id,
        min(ts) AS submitted_at,
        max(ts) AS reported_at,
        argMax((e.workload_id, e.tenant, e.project, e.queue, e.priority, e.gpus, e.reason, e.message), ts) AS newest,
        countIf(event != 'submitted') AS changes
    FROM events AS e
    WHERE ts <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, allocation_id
    HAVING changes = 0
);

-- One row: a device as it is at an instant; removed ones are not here. since: when it got into its state.
CREATE OR REPLACE VIEW devices_at AS
SELECT
    cluster, device_id,
    newest.1 AS node, newest.2 AS model, newest.3 AS pool, newest.4 AS units, newest.5 AS state,
    states[1 + arrayLastIndex(change -> change.2 != toString(newest.5), states)].1 AS since
FROM
(
    SELECT
        cluster, device_id,
        argMax((d.node, d.model, d.pool, d.units, d.state), ts) AS newest,
        arraySort(groupArray((ts, toString(d.state)))) AS states
    FROM devices AS d
    WHERE ts <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, device_id
)
WHERE newest.5 != 'removed';

-- One row: what an allocation holds of a device at an instant, with the samples of the stream that speaks best of it in
-- the last seconds before: the workload's on its partition, everybody's there, the workload's on the device, everybody's
-- on the device if the allocation is alone there (as in docs/ledger.md).
-- samples: (ts, interval_seconds, usable, confirmed idle, utilization, greatest of the other activities, power_watts,
--          memory_used_bytes), by ts; empty: nobody speaks of it.
CREATE OR REPLACE VIEW held_streams AS
WITH
    streams AS
    (
        SELECT
            cluster, device_id, partition_id, workload_id,
            arraySort(one -> one.1, groupArray((
                ts, interval_seconds, state <= 'idle', state = 'idle', utilization,
                arrayMax([sm_active, tensor_active, dram_active]), power_watts, memory_used_bytes))) AS samples
        FROM samples
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')}
        GROUP BY cluster, device_id, partition_id, workload_id
    )
SELECT
    cluster, node, device_id, partition_id, units, allocation_id, workload_id, tenant, project, queue, priority, gpus,
    start_at,
    argMin(if(rank < 9, measured, []), rank) AS samples
FROM
(
    SELECT
        h.cluster AS cluster, h.node AS node, h.device_id AS device_id, h.partition_id AS partition_id, h.units AS units,
        h.allocation_id AS allocation_id, h.workload_id AS workload_id, h.tenant AS tenant, h.project AS project,
        h.queue AS queue, h.priority AS priority, h.gpus AS gpus, h.start_at AS start_at,
        s.samples AS measured,
        s.workload_id = h.workload_id AND h.workload_id != '' AS own,
        multiIf(
            empty(measured), 9,
            s.partition_id = h.partition_id AND own, 1,
            s.partition_id = h.partition_id AND h.partition_id != '' AND s.workload_id = '', 2,
            s.partition_id = '' AND own, 3,
            s.partition_id = '' AND s.workload_id = '' AND h.holders = 1, 4,
            9) AS rank
    FROM
    (
        SELECT *, uniqExact(allocation_id) OVER (PARTITION BY cluster, device_id) AS holders
        FROM holders(at = {at:DateTime64(3, 'UTC')})
        WHERE device_id != ''
    ) AS h
    LEFT JOIN streams AS s ON h.cluster = s.cluster AND h.device_id = s.device_id
)
GROUP BY ALL;
