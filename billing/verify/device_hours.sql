-- One row: a device and hour whose books do not balance; or, waits = 1, one of whose device rows came since its close.
-- Units:   unit-milliseconds; money in price x unit-milliseconds (exact: the divisor is the same for a whole device-hour);
--          where one price covers the hour the parts' costs are the capacity's cost, else they lie between the extremes.
-- Reads:   capacity again from the device rows themselves, by another way than the close: from pairs of neighbouring
--          rows, without the hours' segments. Every hour before the last close's end has to be closed.
--          Rows of a batch that is not all there yet do not count, as in a close.
-- Params:  start, end = [start, end); forever; most = rows that wait, and rows that do not.   $$latest_closes = latest_closes.sql.
WITH
    [toDateTime({start:DateTime64(3, 'UTC')}, 'UTC'), assumeNotNull((SELECT toStartOfHour(toDateTime(min(ts), 'UTC')) FROM devices WHERE (batch = 0 OR batch IN (SELECT batch FROM ingest_batches))))] AS firsts,
    [toDateTime({end:DateTime64(3, 'UTC')}, 'UTC'), assumeNotNull((SELECT max(closed_until) FROM close_runs))] AS lasts,
    hours AS
    (
        SELECT hour, max(is_closed) AS is_closed, toInt64(toUnixTimestamp(hour)) * 1000 AS opens, opens + 3600000 AS ends
        FROM
        (
            SELECT hour, true AS is_closed
            FROM closed_hours
            WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
            GROUP BY hour
            UNION ALL
            SELECT arrayMax(firsts) + toIntervalHour(number) AS hour, false AS is_closed
            FROM numbers(toUInt64(greatest(0, dateDiff('hour', arrayMax(firsts), arrayMin(lasts)))))
        )
        GROUP BY hour
    ),
    rows_of_devices AS
    (
        SELECT cluster, device_id, toUnixTimestamp64Milli(ts) AS since, max((state, units)) AS reported
        FROM devices
        WHERE (batch = 0 OR batch IN (SELECT batch FROM ingest_batches))
        GROUP BY cluster, device_id, ts
    ),
    lives AS
    (
        SELECT cluster, device_id, since,
            leadInFrame(since, 1, {forever:Int64}) OVER (PARTITION BY cluster, device_id ORDER BY since
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS until,
            reported.1 AS state, reported.2 AS units
        FROM rows_of_devices
    ),
    capacity AS
    (
        SELECT hour, cluster, device_id, max(is_closed) AS is_closed,
            sum(toInt64(units) * greatest(0, least(until, ends) - greatest(since, opens))) AS capacity_unit_ms,
            sumIf(toInt64(units) * greatest(0, least(until, ends) - greatest(since, opens)), state = 'unavailable') AS down_unit_ms
        FROM hours
        CROSS JOIN lives
        WHERE state != 'removed' AND since < ends AND until > opens
        GROUP BY hour, cluster, device_id
    ),
    booked AS
    (
        SELECT hour, cluster, device_id,
            sum(used_unit_ms) + sum(idle_unit_ms) + sum(unmetered_unit_ms) + sum(unallocated_unit_ms) + sum(unavailable_unit_ms) AS booked_unit_ms,
            sum(unavailable_unit_ms) AS booked_down_unit_ms,
            min(least(used_unit_ms, idle_unit_ms, CAST(least(unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms) AS Decimal(18, 6)))) AS least_kind,
            countIf(list_unit_price IS NULL) AS unpriced_entries,
            min(list_unit_price) AS lowest,
            max(list_unit_price) AS highest,
            sum((used_unit_ms + idle_unit_ms + unmetered_unit_ms + unallocated_unit_ms + unavailable_unit_ms)
                * CAST(list_unit_price AS Nullable(Decimal(38, 9)))) AS cost,
            max(allocation_id != '' AND toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms)
                > units * (toUnixTimestamp64Milli(charge_period_end) - toUnixTimestamp64Milli(charge_period_start))) AS longer_than_itself
        FROM ledger
        WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
        GROUP BY hour, cluster, device_id
    ),
    wrong AS
    (
        SELECT
            if(capacity.device_id = '', booked.hour, capacity.hour) AS at,
            if(capacity.device_id = '', booked.cluster, capacity.cluster) AS in_cluster,
            if(capacity.device_id = '', booked.device_id, capacity.device_id) AS of_device,
            multiIf(
                capacity.device_id != '' AND NOT is_closed, 'the hour is not closed',
                booked_unit_ms != capacity_unit_ms, concat('booked ', toString(booked_unit_ms), ' of ', toString(capacity_unit_ms), ' unit-milliseconds'),
                booked_down_unit_ms != down_unit_ms, 'unavailable time differs from the device rows',
                least_kind < 0, 'a quantity is negative',
                longer_than_itself, 'an entry is longer than its period',
                unpriced_entries = 0 AND (cost < capacity_unit_ms * CAST(lowest AS Decimal(38, 9)) OR cost > capacity_unit_ms * CAST(highest AS Decimal(38, 9))),
                    'the parts'' cost differs from the capacity''s',
                '') AS reason
        FROM capacity
        FULL OUTER JOIN booked
            ON capacity.hour = booked.hour AND capacity.cluster = booked.cluster AND capacity.device_id = booked.device_id
        WHERE reason != ''
    ),
    came AS
    (
        SELECT cluster, device_id, max(ingested_at) AS last_came
        FROM devices
        INNER JOIN ingest_batches ON devices.batch = ingest_batches.batch
        GROUP BY cluster, device_id
    )
SELECT at, in_cluster, of_device, reason, last_came > latest.ingest_cutoff AS waits
FROM (SELECT 1 AS one, wrong.*, last_came FROM wrong LEFT JOIN came ON wrong.in_cluster = came.cluster AND wrong.of_device = came.device_id) AS wrong
ASOF LEFT JOIN ($latest_closes) AS latest ON wrong.one = latest.one AND wrong.at < latest.closed_until
ORDER BY at, in_cluster, of_device
LIMIT {most:UInt32} BY waits
