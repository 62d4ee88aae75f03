-- Adds points of latency: of the minutes in which a service had requests, those in which it was fast enough.
-- Units:   seconds; a minute in which only some replicas were slow is partly good.
-- Shape:   a histogram gives two edges: good if the upper one is within the bound, bad if the lower one is not below it, in
--          between only if the objective says interpolate; everything else that was reported is missing. A row for the
--          whole service is preferred to those of its replicas. Minutes without requests, or asleep, do not count. Silent
--          ones are missing, for up to a day after the service's last report.
-- Params:  run; definitions; [since, until), since on the hour.
-- Reads:   service levels of the span and of a day around it, twice.
-- $$services: services.sql.
INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds)
WITH
    toUInt32(intDiv(toUnixTimestamp({since:DateTime64(3, 'UTC')}), 60)) AS first_minute,
    toUInt32(intDiv(toUnixTimestamp({until:DateTime64(3, 'UTC')}), 60)) AS last_minute,
    objective AS
    (
        SELECT definition, cluster, tenant, service, metric, quantile, assumeNotNull(bound) AS bound, interpolate
        FROM slo_objectives
        WHERE has({definitions:Array(String)}, definition) AND kind = 'latency'
    ),
    recent AS
    (
        SELECT cluster, service, workload_id, tenant, metric, quantile, value, value_low, value_high, minute
        FROM
        (
            SELECT *, toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, 60000) + 1) AS ends,
                toUInt32(greatest(1, least(1440, round(interval_seconds / 60)))) AS length
            FROM service_levels
            WHERE ts > {since:DateTime64(3, 'UTC')} - INTERVAL 1 DAY AND ts <= {until:DateTime64(3, 'UTC')} + INTERVAL 1 DAY
        )
        ARRAY JOIN arrayMap(back -> toUInt32(ends - back), range(length)) AS minute
        WHERE minute <= last_minute
    ),
    service AS
    (
        $services
    ),
    reported AS
    (
        SELECT
            o.definition AS definition, s.cluster AS cluster, s.service AS service, s.tenant AS tenant,
            arrayJoin(arrayFlatten(arrayMap(
                (minute, next) -> range(greatest(minute, first_minute + 1), least(next, minute + 1440, last_minute + 1)),
                s.lit, arrayPushBack(arrayPopFront(s.lit), last_minute + 1)))) AS minute,
            'expected' AS verdict, '' AS workload_id
        FROM service AS s
        CROSS JOIN objective AS o
        WHERE match(s.cluster, o.cluster) AND match(s.service, o.service) AND match(s.tenant, o.tenant)
        UNION ALL
        SELECT
            o.definition, r.cluster, r.service, '', r.minute,
            multiIf(
                asked = 'requests_per_second', if(r.value > 0, 'requests', if(r.value = 0, 'no requests', '')),
                asked = 'engine_sleeping', if(r.value = 1, 'asleep', 'awake'),
                r.value_high <= o.bound, 'good',
                r.value_low >= o.bound, 'bad',
                r.value IS NULL, 'missing',
                r.value_low IS NULL OR r.value_high IS NULL OR r.value_low = r.value_high OR o.interpolate,
                    if(r.value <= o.bound, 'good', 'bad'),
                'missing'),
            r.workload_id
        FROM (SELECT *, arrayJoin([metric, 'requests_per_second', 'engine_sleeping']) AS asked FROM objective) AS o
        INNER JOIN recent AS r ON r.metric = o.asked
        WHERE r.minute > first_minute
            AND (o.asked IN ('requests_per_second', 'engine_sleeping') OR ifNull(o.quantile, -1) = ifNull(r.quantile, -1))
    ),
    measured AS
    (
        SELECT
            definition, cluster, service, minute,
            max(reported.tenant) AS holder,
            countIf(verdict IN ('good', 'bad', 'missing') AND workload_id = '') AS wholes,
            countIf(verdict IN ('good', 'bad', 'missing')) AS rows_reported,
            if(wholes > 0, countIf(verdict = 'good' AND workload_id = ''), countIf(verdict = 'good')) AS good_rows,
            if(wholes > 0, countIf(verdict = 'bad' AND workload_id = ''), countIf(verdict = 'bad')) AS bad_rows,
            good_rows / greatest(1, if(wholes > 0, wholes, rows_reported)) AS good,
            bad_rows / greatest(1, if(wholes > 0, wholes, rows_reported)) AS bad,
            rows_reported = 0 AND ((countIf(verdict = 'no requests') > 0 AND countIf(verdict = 'requests') = 0)
                OR (countIf(verdict = 'asleep') > 0 AND countIf(verdict = 'awake') = 0)) AS is_quiet
        FROM reported
        GROUP BY definition, cluster, service, minute
        HAVING countIf(verdict = 'expected') > 0 AND NOT is_quiet
    )
SELECT
    definition,
    {run:UInt64} AS run,
    toDateTime(intDiv((minute - 1) * 60, 3600) * 3600, 'UTC') AS hour,
    toDateTime(intDiv((minute - 1) * 60, 300) * 300 + 300, 'UTC') AS at,
    cluster, holder AS tenant, service AS subject,
    sum(measured.good) * 60 AS good,
    sum(measured.bad) * 60 AS bad,
    greatest(0, round(sum(1 - measured.good - measured.bad) * 60, 6)) AS missing,
    0 AS dark_seconds
FROM measured
GROUP BY definition, hour, at, cluster, tenant, subject
