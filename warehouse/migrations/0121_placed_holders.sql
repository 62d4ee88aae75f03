-- Who holds a device says when that was reported last, so that what the books have of an earlier report is known to be old.

-- One row: an allocation that holds a device, or a part of it, at an instant, as its source's events report it; the
-- newest placing event names the devices, and one that is suspended or over holds nothing.
-- start_at: since when without a break. placed_at: of that event. gpus: as requested.
CREATE OR REPLACE VIEW holders AS
SELECT
    cluster, allocation_id, start_at,
    place.2 AS node, place.3 AS device_id, place.4 AS partition_id, place.5 AS units, place.6 AS workload_id,
    place.7 AS tenant, place.8 AS project, place.9 AS queue, place.10 AS priority, place.11 AS preemptible,
    place.12 AS gpus, placed_at
FROM
(
    SELECT
        cluster, allocation_id,
        maxIf(ts, event IN ('started', 'resumed')) AS start_at,
        groupUniqArrayIf(
            (ts, e.node, e.device_id, e.partition_id, e.units, e.workload_id, e.tenant, e.project, e.queue, e.priority,
             ifNull(e.preemptible, false), e.gpus),
            event IN ('started', 'resized') OR (event = 'resumed' AND e.device_id != '')) AS places,
        arrayMax(arrayMap(place -> place.1, places)) AS placed_at
    FROM events AS e
    WHERE ts <= {at:DateTime64(3, 'UTC')} AND event IN ('started', 'resized', 'resumed')
        AND (cluster, allocation_id) IN
        (
            SELECT cluster, allocation_id
            FROM events
            WHERE ts <= {at:DateTime64(3, 'UTC')} AND event != 'submitted'
            GROUP BY cluster, allocation_id
            HAVING maxIf(ts, event IN ('started', 'resized', 'resumed'))
                > maxIf(ts, event IN ('suspended', 'preempted', 'finished', 'failed', 'cancelled', 'rejected'))
        )
    GROUP BY cluster, allocation_id
)
ARRAY JOIN arrayFilter(place -> place.1 = placed_at, places) AS place;
