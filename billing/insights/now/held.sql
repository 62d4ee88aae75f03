-- One row: an allocation that holds GPUs at an instant, the greatest waste first, then the most expensive; by_idle: those
-- with idle GPUs before all others, the dearest idle hour first.
-- gpus: held, shares of one as fractions; if no device is named, as requested.
-- used_5, used_60: the used part of the metered time in the last 5 and 60 minutes since it started, 0-1; NULL: unmetered.
-- metered_60: the metered part of these 60 minutes.   idle_gpus: those that did nothing at all for 5 minutes.
-- list_hour, billed_hour: price per hour of its available GPUs, exact; NULL: the card has no price for some of them.
-- idle_hour: list_hour of idle_gpus.
-- waste: idle cost at list price of its closed hours since it started, exact; NULL: none is closed and metered, or some
-- have no price.
-- alert_*: of its idle-holder alert, the most advanced one; ''.   all_*: sums over all rows, not only the first {most};
-- all_idle_rows: rows with idle GPUs; all_unasked: devices of whose subject the caller does not know whether it has a price.
-- Samples used: the allocation's own on its partition, all of the partition's, its own on the device, all of the device's
-- if it is alone there (docs/ledger.md); of a lower one those that overlap none of a higher. A reader who sees some tenants only cannot know whether a share is alone: then
-- unknown. Of a device or a partition of which a workload holds a part, utilization x scale is the used part of what it holds, at
-- most all of it, as in the books (billing/close/holdings.sql).
-- Params:  those of ({places}); by_queue, by_preemptible, by_cluster, priority_bounds; subjects Array(UInt64), list_prices and
--          billed_prices Array(String): what a GPU-hour costs each; unpriced Array(UInt64): those without a price; currency; idle_below = part of 1; by_idle UInt8; most.
WITH
    (SELECT yes FROM sees_all) AS all_seen,
    toUnixTimestamp64Milli({at:DateTime64(3,'UTC')}) AS at_ms,
    at_ms - 300000 AS last_5,
    at_ms - 3600000 AS last_60,
    streams AS
    (
        SELECT
            cluster, device_id, partition_id, workload_id,
            groupArray((
                toUnixTimestamp64Milli(ts) - toInt64(round(interval_seconds * 1000)),
                toUnixTimestamp64Milli(ts),
                toFloat64(ifNull(utilization, 0)),
                toFloat64(greatest(ifNull(utilization, 0), ifNull(sm_active, 0), ifNull(tensor_active, 0), ifNull(dram_active, 0)))
            )) AS reported
        FROM samples
        WHERE ts > {at:DateTime64(3,'UTC')} - INTERVAL 60 MINUTE AND ts <= {at:DateTime64(3,'UTC')} AND state <= 'idle'
        GROUP BY cluster, device_id, partition_id, workload_id
    ),
    by_device AS
    (
        SELECT
            cluster, allocation_id, workload_id, start_at, queue, priority, preemptible, gpus, tenant, project, cost_center,
            node, device_id, partition_id, partition_profile, device_units, units, model, pool, is_available, doubt,
            arraySort(groupArrayIf((rank, ifNull(scale, 1), reported), rank < 9)) AS ways,
            arrayFold(
                (taken, way) -> arrayConcat(taken, arrayMap(
                    one -> (one.1, one.2, least(1, one.3 * way.2), one.4),
                    arrayFilter(one -> NOT arrayExists(other -> one.1 < other.2 AND other.1 < one.2, taken), way.3))),
                ways,
                CAST([] AS Array(Tuple(Int64, Int64, Float64, Float64)))) AS samples
        FROM
        (
            SELECT
                o.cluster AS cluster, o.allocation_id AS allocation_id, o.workload_id AS workload_id, o.start_at AS start_at,
                o.queue AS queue, o.priority AS priority, o.preemptible AS preemptible, o.gpus AS gpus, o.tenant AS tenant,
                o.project AS project, o.cost_center AS cost_center, o.node AS node, o.device_id AS device_id,
                o.partition_id AS partition_id, o.partition_profile AS partition_profile, o.device_units AS device_units,
                o.units AS units, o.model AS model, o.pool AS pool, o.is_available AS is_available,
                o.doubt AS doubt,
                s.reported AS reported,
                s.workload_id = o.workload_id AND o.workload_id != '' AS own,
                if(s.partition_id = '', o.device_units / nullIf(o.of_device.2, 0), o.of_partition.1 / nullIf(o.of_partition.2, 0)) AS scale,
                multiIf(
                    empty(reported), 9,
                    s.partition_id = o.partition_id AND own, 1,
                    s.partition_id = o.partition_id AND o.partition_id != '' AND s.workload_id = '' AND o.of_partition.3 = 1, 2,
                    s.partition_id = '' AND own, 3,
                    s.partition_id = '' AND s.workload_id = '' AND o.of_device.3 = 1 AND (all_seen OR o.of_device.2 >= o.device_units), 4,
                    9) AS rank
            FROM ({places}) AS o
            LEFT JOIN streams AS s ON o.cluster = s.cluster AND o.device_id = s.device_id AND o.device_id != ''
        )
        GROUP BY ALL
    ),
    measured AS
    (
        SELECT
            *,
            device_units > 0 AND device_id != '' AS is_known,
            greatest(1, device_units) AS whole,
            if(is_known, units / whole, 0) AS share,
            toUnixTimestamp64Milli(start_at) AS since_ms,
            arrayMap(one -> (one.3, one.2 - greatest(one.1, since_ms, last_60)), arrayFilter(one -> one.2 > since_ms, samples)) AS hour,
            arrayMap(one -> (one.3, one.2 - greatest(one.1, since_ms, last_5), one.4), arrayFilter(one -> one.2 > greatest(since_ms, last_5), samples)) AS minutes,
            arraySum(one -> one.2, hour) AS metered_hour,
            arraySum(one -> one.2, minutes) AS metered_minutes,
            notEmpty(minutes) AND arrayMax(one -> one.3, minutes) <= {idle_below:Float64} AS is_idle,
            cityHash64(
                toString(model), toString(pool), toString(partition_profile), tenant,
                if({by_queue:UInt8}, toString(queue), ''),
                toUInt16(if(isNull(priority) OR empty({priority_bounds:Array(Int64)}), 0, 1 + arrayCount(x -> x <= priority, {priority_bounds:Array(Int64)}))),
                toUInt8(if({by_preemptible:UInt8}, preemptible, false)),
                if({by_cluster:UInt8}, toString(cluster), '')) AS subject,
            indexOf({subjects:Array(UInt64)}, subject) AS number,
            number > 0 OR has({unpriced:Array(UInt64)}, subject) AS is_asked,
            if(number = 0, NULL, toDecimal128({list_prices:Array(String)}[number], 9)) AS list_price,
            if(number = 0, NULL, toDecimal128({billed_prices:Array(String)}[number], 9)) AS billed_price
        FROM by_device
    ),
    holdings AS
    (
        SELECT
            cluster, allocation_id,
            any(m.workload_id) AS workload_id, any(m.start_at) AS since, any(m.tenant) AS tenant, any(m.project) AS project,
            any(m.cost_center) AS cost_center, any(m.queue) AS queue,
            arraySort(groupUniqArray(toString(m.node))) AS nodes,
            arraySort(groupUniqArrayIf((toString(m.device_id), toString(m.partition_id), toString(m.partition_profile), m.units, m.device_units, m.doubt), m.device_id != '')) AS devices,
            if(countIf(is_known) > 0, sum(share), any(m.gpus)) AS gpus,
            sum(share * arraySum(one -> one.1 * one.2, minutes)) / nullIf(sum(share * metered_minutes), 0) AS used_5,
            sum(share * arraySum(one -> one.1 * one.2, hour)) / nullIf(sum(share * metered_hour), 0) AS used_60,
            sum(share * metered_hour) / nullIf(sum(share) * (at_ms - greatest(any(since_ms), last_60)), 0) AS metered,
            least(1, metered) AS metered_60,
            sumIf(share, is_idle) AS idle_gpus,
            sumIf(share, metered_minutes > 0) AS seen_gpus,
            countIf(NOT is_known OR list_price IS NULL) AS unpriced,
            countIf(is_known AND NOT is_available) AS down,
            countIf(is_known AND NOT is_asked) AS unasked,
            if(unpriced > 0, NULL, ifNull(sumIf(list_price * m.units / m.whole, is_known AND is_available), 0)) AS list_hour,
            if(unpriced > 0, NULL, ifNull(sumIf(billed_price * m.units / m.whole, is_known AND is_available), 0)) AS billed_hour,
            if(unpriced > 0, NULL, ifNull(sumIf(list_price * m.units / m.whole, is_known AND is_available AND is_idle), 0)) AS idle_hour
        FROM measured AS m
        GROUP BY cluster, allocation_id
    ),
    open AS
    (
        SELECT cluster, allocation_id, start_at
        FROM allocations
        WHERE start_at <= {at:DateTime64(3,'UTC')} AND ifNull(end_at > {at:DateTime64(3,'UTC')}, true)
    ),
    wasted AS
    (
        SELECT
            l.cluster AS cluster, l.allocation_id AS allocation_id,
            if(sum(l.used_unit_ms + l.idle_unit_ms) = 0 OR countIf(l.idle_unit_ms > 0 AND (l.list_unit_price IS NULL OR l.billing_currency != {currency:String})) > 0, NULL,
                sum(toDecimal128(l.idle_unit_ms, 6) * ifNull(l.list_unit_price, 0) / (l.device_units * 3600000))) AS waste,
            toNullable(sum(toFloat64(l.idle_unit_ms) / (l.device_units * 3600000))) AS idle_hours
        FROM ledger AS l
        INNER JOIN
        (
            SELECT cluster, allocation_id,
                arraySort(groupArray((start_at, ifNull(end_at, {at:DateTime64(3,'UTC')})))) AS claims,
                claims[arrayLastIndex((claim, place) -> place = 1 OR claim.1 > arrayMax(one -> one.2, arraySlice(claims, 1, place - 1)),
                    claims, arrayEnumerate(claims))].1 AS since
            FROM allocations
            WHERE start_at <= {at:DateTime64(3,'UTC')} AND (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM open)
            GROUP BY cluster, allocation_id
        ) AS books ON l.cluster = books.cluster AND l.allocation_id = books.allocation_id
        WHERE l.hour > (SELECT min(start_at) FROM open) - INTERVAL 1 HOUR
            AND (l.cluster, l.allocation_id) IN (SELECT cluster, allocation_id FROM open)
            AND l.charge_period_start >= books.since AND l.charge_period_end <= {at:DateTime64(3,'UTC')} AND l.allocation_id != ''
        GROUP BY cluster, allocation_id
    ),
    fires AS
    (
        SELECT
            JSONExtractString(labels, 'cluster') AS cluster, JSONExtractString(labels, 'allocation_id') AS allocation_id,
            argMax((rule, fingerprint, toString(severity), JSONExtractString(labels, 'owner')), (state = 'firing', indexOf(['idle-holder-notice', 'idle-holder', 'idle-holder-reclaim'], rule))) AS worst
        FROM alerts
        WHERE state = 'firing' AND startsWith(rule, 'idle-holder')
        GROUP BY cluster, allocation_id
    )
SELECT
    h.cluster AS cluster, h.allocation_id AS allocation_id, h.workload_id AS workload_id, h.since AS since,
    h.tenant AS tenant, h.project AS project, h.cost_center AS cost_center, h.queue AS queue, h.nodes AS nodes,
    h.devices AS devices, h.gpus AS gpus, h.used_5 AS used_5, h.used_60 AS used_60, h.metered_60 AS metered_60,
    h.idle_gpus AS idle_gpus, h.down AS down, h.list_hour AS list_hour, h.billed_hour AS billed_hour,
    h.idle_hour AS idle_hour, w.waste AS waste, w.idle_hours AS idle_hours,
    f.worst.1 AS alert_rule, f.worst.2 AS alert, f.worst.3 AS alert_severity, f.worst.4 AS alert_owner,
    count() OVER () AS all_rows,
    countIf(h.idle_gpus > 0) OVER () AS all_idle_rows,
    sum(h.gpus) OVER () AS all_gpus,
    sum(h.idle_gpus) OVER () AS all_idle_gpus,
    sum(h.seen_gpus) OVER () AS all_seen_gpus,
    sum(h.list_hour) OVER () AS all_list_hour,
    sum(h.billed_hour) OVER () AS all_billed_hour,
    sum(h.idle_hour) OVER () AS all_idle_hour,
    sum(w.waste) OVER () AS all_waste,
    countIf(h.list_hour IS NULL) OVER () AS all_unpriced,
    sum(h.unasked) OVER () AS all_unasked
FROM holdings AS h
LEFT JOIN wasted AS w ON h.cluster = w.cluster AND h.allocation_id = w.allocation_id
LEFT JOIN fires AS f ON h.cluster = f.cluster AND h.allocation_id = f.allocation_id
ORDER BY
    {by_idle:UInt8} AND h.idle_gpus > 0 DESC, if({by_idle:UInt8}, h.idle_hour, NULL) DESC NULLS LAST,
    if({by_idle:UInt8}, h.idle_gpus, 0) DESC,
    waste DESC NULLS LAST, idle_hour DESC NULLS LAST, list_hour DESC NULLS LAST, since, cluster, allocation_id
LIMIT {most:UInt32}
