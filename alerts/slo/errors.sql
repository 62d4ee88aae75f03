-- Adds points of error_rate: of a service's requests, those that were answered without an error.
-- Units:   requests.
-- Shape:   an error_ratio with its number of requests is preferred to rates; a row for the whole service to those of its
--          replicas. missing: requests without a report of whether they failed. dark_seconds: minutes without reported
--          requests, for up to a day after the service's last report.
-- Params:  run; definitions; [since, until), since on the hour.
-- Reads:   service levels of the span and of the day before, twice.
-- $$services: services.sql.
INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds)
WITH
    toUInt32(intDiv(toUnixTimestamp({since:DateTime64(3, 'UTC')}), 60)) AS first_minute,
    toUInt32(intDiv(toUnixTimestamp({until:DateTime64(3, 'UTC')}), 60)) AS last_minute,
    recent AS
    (
        SELECT
            cluster, service, workload_id, tenant, metric, value, interval_seconds, toFloat64(observations) AS observations,
            toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, 60000) + 1) AS minute
        FROM service_levels
        WHERE ts > {since:DateTime64(3, 'UTC')} - INTERVAL 1 DAY AND ts <= {until:DateTime64(3, 'UTC')}
    ),
    service AS
    (
        $services
    ),
    replica AS
    (
        SELECT
            cluster, service, minute, '' AS tenant, workload_id = '' AS whole, false AS expected,
            countIf(metric = 'error_ratio' AND observations IS NOT NULL AND value IS NOT NULL) > 0 AS by_ratio,
            by_ratio OR countIf(metric = 'errors_per_second' AND value IS NOT NULL) > 0 AS tells_errors,
            if(by_ratio, sumIf(ifNull(observations, 0.), metric = 'error_ratio'),
                sumIf(ifNull(value, 0.) * interval_seconds, metric = 'requests_per_second')) AS requests,
            if(by_ratio, sumIf(ifNull(value * observations, 0.), metric = 'error_ratio'),
                sumIf(ifNull(value, 0.) * interval_seconds, metric = 'errors_per_second')) AS errors
        FROM recent
        WHERE metric IN ('error_ratio', 'requests_per_second', 'errors_per_second')
            AND minute > first_minute AND minute <= last_minute
        GROUP BY cluster, service, minute, workload_id
        HAVING by_ratio OR countIf(metric = 'requests_per_second' AND value IS NOT NULL) > 0
        UNION ALL
        SELECT
            s.cluster, s.service,
            arrayJoin(arrayFlatten(arrayMap(
                (minute, next) -> range(greatest(minute, first_minute + 1), least(next, minute + 1440, last_minute + 1)),
                s.lit, arrayPushBack(arrayPopFront(s.lit), last_minute + 1)))),
            s.tenant, false, true, false, false, 0., 0.
        FROM service AS s
    ),
    measured AS
    (
        SELECT
            cluster, service, minute,
            max(replica.tenant) AS holder,
            countIf(whole) > 0 AS by_whole,
            if(by_whole, sumIf(requests, tells_errors AND whole), sumIf(requests, tells_errors)) AS known,
            if(by_whole, sumIf(least(errors, requests), tells_errors AND whole),
                sumIf(least(errors, requests), tells_errors)) AS bad,
            if(by_whole, sumIf(requests, NOT tells_errors AND whole), sumIf(requests, NOT tells_errors)) AS missing,
            if(countIf(NOT expected) = 0, 60, 0) AS dark
        FROM replica
        GROUP BY cluster, service, minute
        HAVING countIf(expected) > 0
    )
SELECT
    o.definition AS definition,
    {run:UInt64} AS run,
    toDateTime(intDiv((m.minute - 1) * 60, 3600) * 3600, 'UTC') AS hour,
    toDateTime(intDiv((m.minute - 1) * 60, 300) * 300 + 300, 'UTC') AS at,
    m.cluster AS cluster, m.holder AS tenant, m.service AS subject,
    sum(m.known - m.bad) AS good,
    sum(m.bad) AS bad,
    sum(m.missing) AS missing,
    sum(m.dark) AS dark_seconds
FROM measured AS m
CROSS JOIN
(
    SELECT definition, cluster, tenant, service
    FROM slo_objectives
    WHERE has({definitions:Array(String)}, definition) AND kind = 'error_rate'
) AS o
WHERE match(m.cluster, o.cluster) AND match(m.service, o.service) AND match(m.holder, o.tenant)
GROUP BY definition, hour, at, cluster, tenant, subject
