-- What the statements of this page select from as ({places}): what is allocated at an instant, and to whom.
-- One row: an allocation's share of a device. device_id '': neither its source nor the books name one; gpus: as requested.
-- start_at: since when without a break.   tenant, project: who pays according to the books if they know the allocation,
-- else as its source reported.   units of device_units (0: the device is not in the inventory); is_whole: all of them.
-- doubt: 'assumed': its source named a node only, and the books assumed the device; 'contested': what is held of the device, or
-- of the partition, does not fit together; else ''.   holders: allocations on the device. Both regardless of filters.
-- An allocation that the books ended since it began, because its source never reported its end, is left out.
-- Params:  at; tenants, projects, queues, pools, models, clusters Array(String), empty: all.
SELECT *
FROM
(
    SELECT
        h.cluster AS cluster, h.allocation_id AS allocation_id, h.workload_id AS workload_id, h.start_at AS start_at,
        h.queue AS queue, h.priority AS priority, ifNull(h.preemptible, false) AS preemptible, h.gpus AS gpus,
        if(h.known, h.payer.1, toString(h.reported_tenant)) AS tenant, if(h.known, h.payer.2, toString(h.reported_project)) AS project,
        h.payer.3 AS cost_center,
        h.place.1 AS node, h.place.2 AS device_id, h.place.3 AS partition_id,
        if(p.partition_profile = '', h.place.4, p.partition_profile) AS partition_profile,
        d.units AS device_units, ifNull(h.place.5, device_units) AS units, units >= device_units AS is_whole,
        multiIf(
            h.place.6, 'assumed',
            device_id != '' AND device_units > 0 AND (sum(units) OVER (PARTITION BY cluster, device_id) > device_units
                OR (partition_id != '' AND uniqExact(allocation_id) OVER (PARTITION BY cluster, device_id, partition_id) > 1)), 'contested',
            '') AS doubt,
        d.model AS model, d.pool AS pool, d.state = 'available' AS is_available,
        if(h.workload_id = '', h.allocation_id, h.workload_id) AS holder,
        (sum(units) OVER (PARTITION BY cluster, device_id), sum(units) OVER (PARTITION BY cluster, device_id, holder),
            uniqExact(holder) OVER (PARTITION BY cluster, device_id)) AS of_device,
        (sum(units) OVER (PARTITION BY cluster, device_id, partition_id), sum(units) OVER (PARTITION BY cluster, device_id, partition_id, holder),
            uniqExact(holder) OVER (PARTITION BY cluster, device_id, partition_id)) AS of_partition
    FROM
    (
        SELECT
            reported.cluster AS cluster, reported.allocation_id AS allocation_id, reported.workload_id AS workload_id,
            reported.start_at AS start_at, reported.queue AS queue, reported.priority AS priority, reported.preemptible AS preemptible,
            reported.gpus AS gpus, reported.tenant AS reported_tenant, reported.project AS reported_project,
            books.allocation_id != '' AS known, books.payer AS payer,
            arrayJoin(if(reported.device_id = '' AND notEmpty(books.places), books.places,
                [(toString(reported.node), toString(reported.device_id), toString(reported.partition_id),
                  arrayFirst(one -> one.2 = reported.device_id AND one.3 = reported.partition_id, books.places).4,
                  ifNull(reported.units, arrayFirst(one -> one.2 = reported.device_id AND one.3 = reported.partition_id
                      AND one.7 >= reported.placed_at, books.places).5), false, reported.placed_at)])) AS place
        FROM holders(at = {at:DateTime64(3,'UTC')}) AS reported
        LEFT JOIN
        (
            SELECT
                cluster, allocation_id,
                (argMax(toString(tenant), start_at), argMax(toString(project), start_at), argMax(toString(cost_center), start_at)) AS payer,
                groupArrayIf((toString(node), toString(device_id), toString(partition_id), toString(partition_profile), toNullable(units),
                    startsWith(toString(estimated), 'device unknown'), start_at),
                    is_open) AS places,
                if(countIf(is_open) = 0, maxOrNull(end_at), NULL) AS ended_at
            FROM (SELECT *, ifNull(end_at > {at:DateTime64(3,'UTC')}, true) AS is_open FROM allocations WHERE start_at <= {at:DateTime64(3,'UTC')})
            GROUP BY cluster, allocation_id
        ) AS books ON reported.cluster = books.cluster AND reported.allocation_id = books.allocation_id
        WHERE NOT ifNull(books.ended_at > reported.start_at, false)
    ) AS h
    LEFT JOIN
    (
        SELECT cluster, allocation_id, device_id, partition_id, argMax(e.partition_profile, (ts, e.partition_profile)) AS partition_profile
        FROM events AS e
        WHERE ts <= {at:DateTime64(3,'UTC')} AND event IN ('started', 'resized', 'resumed') AND e.partition_profile != ''
        GROUP BY cluster, allocation_id, device_id, partition_id
    ) AS p ON h.cluster = p.cluster AND h.allocation_id = p.allocation_id AND h.place.2 = p.device_id AND h.place.3 = p.partition_id
    LEFT JOIN devices_at(at = {at:DateTime64(3,'UTC')}) AS d ON h.cluster = d.cluster AND h.place.2 = d.device_id
)
WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue))
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
