-- One row: a job that held devices in a span of time, as the books have it; its first placement says how large it is.
-- submitted_at NULL: nobody reported it.   priority NULL: not reported.   held_unit_ms: until its last end, or until {until}
-- where it still holds; first_units: of all devices of its first placement.
-- places: (node, devices of it, units of each) of that; even: each device gave as many units as the others.
-- whole, model, pool: units of its first device, and which; several: its devices are not of one model, pool and number of units.
-- is_mig: it held a device of which MIG instances were held.   is_resized: it was given another size while it ran.   is_preempted: it
-- was stopped for another job.   attempts: times it was started.
-- reasons: that were reported for its waiting, in no order.
-- used_unit_ms, metered_unit_ms: how it was used in the closed hours of the span, and in how much of it that is known.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); until DateTime64(3), not before end.
WITH
    inventory AS
    (
        SELECT
            l.cluster AS cluster, l.device_id AS device_id, argMax(l.model, l.charge_period_start) AS model, argMax(l.pool, l.charge_period_start) AS pool,
            argMax(l.device_units, l.charge_period_start) AS whole, countIf(l.partition_profile != '') > 0 AS is_mig
        FROM ledger AS l
        WHERE l.hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND l.hour < {end:DateTime64(3,'UTC')}
        GROUP BY cluster, device_id
    ),
    there AS
    (
        SELECT DISTINCT cluster, allocation_id
        FROM allocations
        WHERE start_at < {end:DateTime64(3,'UTC')} AND ifNull(end_at, {until:DateTime64(3,'UTC')}) > {start:DateTime64(3,'UTC')}
    ),
    claims AS
    (
        SELECT
            a.cluster AS cluster, a.allocation_id AS allocation_id, a.node AS node, a.device_id AS device_id, a.units AS units,
            a.start_at AS start_at, greatest(a.start_at, ifNull(a.end_at, {until:DateTime64(3,'UTC')})) AS end_at,
            a.end_at IS NULL AS is_open, a.priority AS priority, a.partition_profile AS partition_profile,
            min(a.start_at) OVER (PARTITION BY a.cluster, a.allocation_id) AS started_at,
            i.model AS model, i.pool AS pool, i.whole AS whole,
            i.is_mig AS is_mig
        FROM allocations AS a
        LEFT JOIN inventory AS i ON a.cluster = i.cluster AND a.device_id = i.device_id
        WHERE (a.cluster, a.allocation_id) IN there
    ),
    first_places AS
    (
        SELECT cluster, allocation_id, node, device_id, sum(c.units) AS units
        FROM claims AS c
        WHERE start_at = started_at
        GROUP BY cluster, allocation_id, node, device_id
    ),
    sizes AS
    (
        SELECT
            cluster, allocation_id, arraySort(groupArray((toString(node), devices, most))) AS places,
            min(least_units) = max(most) AS even, sum(all_units) AS first_units
        FROM
        (
            SELECT cluster, allocation_id, node, count() AS devices, min(f.units) AS least_units, max(f.units) AS most, sum(f.units) AS all_units
            FROM first_places AS f
            GROUP BY cluster, allocation_id, node
        )
        GROUP BY cluster, allocation_id
    ),
    reported AS
    (
        SELECT
            cluster, allocation_id, minOrNullIf(ts, event = 'submitted') AS submitted_at, countIf(event = 'resized') > 0 AS is_resized,
            countIf(event = 'preempted') > 0 AS is_preempted,
            uniqExactIf(ts, event IN ('started', 'resumed')) AS attempts,
            groupUniqArrayIf(toString(reason), event = 'submitted' AND reason != '' AND lower(reason) != 'requeued') AS reasons
        FROM events
        WHERE (cluster, allocation_id) IN there
        GROUP BY cluster, allocation_id
    ),
    uses AS
    (
        SELECT
            l.cluster AS cluster, l.allocation_id AS allocation_id, toFloat64(sum(l.used_unit_ms)) AS used_unit_ms,
            toFloat64(sum(l.used_unit_ms + l.idle_unit_ms)) AS metered_unit_ms,
            metered_unit_ms + toFloat64(sum(l.unmetered_unit_ms)) AS held_unit_ms
        FROM ledger AS l
        WHERE l.hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND l.hour < {end:DateTime64(3,'UTC')} AND l.allocation_id != ''
        GROUP BY cluster, allocation_id
    )
SELECT
    c.cluster AS cluster, c.allocation_id AS allocation_id,
    any(r.submitted_at) AS submitted_at, any(c.started_at) AS started_at, max(c.end_at) AS ended_at, max(c.is_open) AS is_open,
    any(c.priority) AS priority,
    any(s.places) AS places, any(s.even) AS even, any(s.first_units) AS first_units,
    sum(toFloat64(c.units) * dateDiff('millisecond', c.start_at, c.end_at)) AS held_unit_ms,
    argMin((toString(c.model), toString(c.pool), c.whole), (c.start_at, c.device_id)) AS kind, kind.1 AS model, kind.2 AS pool, kind.3 AS whole,
    uniqExact(c.model, c.pool, c.whole) > 1 AS several,
    countIf(c.is_mig OR c.partition_profile != '') > 0 AS is_mig,
    any(r.is_resized) AS is_resized, any(r.is_preempted) AS is_preempted, any(r.attempts) AS attempts, any(r.reasons) AS reasons,
    any(u.used_unit_ms) AS used_unit_ms, any(u.metered_unit_ms) AS metered_unit_ms, any(u.held_unit_ms) AS seen_unit_ms
FROM claims AS c
INNER JOIN sizes AS s ON c.cluster = s.cluster AND c.allocation_id = s.allocation_id
LEFT JOIN reported AS r ON c.cluster = r.cluster AND c.allocation_id = r.allocation_id
LEFT JOIN uses AS u ON c.cluster = u.cluster AND c.allocation_id = u.allocation_id
WHERE c.whole > 0
GROUP BY cluster, allocation_id
ORDER BY started_at, cluster, allocation_id
