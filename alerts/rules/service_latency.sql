-- One row: a service with a bound, and in which part of the last window its quantile was above it for certain.
-- Units:   value: 0-1 of the intervals that tell; one counts as slow if even the low edge of its histogram bucket is above
--          the bound. Null: fewer than {least} intervals tell.
-- Params:  at; window_seconds; metric, quantile; bounds = JSON of service to seconds: others are not judged; least.
WITH reported AS
(
    SELECT
        cluster, service, max(tenant) AS tenant, ts,
        JSONExtract({bounds:String}, 'Map(String, Float64)') AS bounds,
        max(value) AS seconds,
        max(ifNull(value_low, value)) AS at_least
    FROM service_levels
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric = {metric:String}
        AND abs(service_levels.quantile - {quantile:Float64}) < 1e-9 AND mapContains(bounds, toString(service))
    GROUP BY cluster, service, ts
    HAVING at_least IS NOT NULL
)
SELECT
    cluster, service, any(reported.tenant) AS tenant,
    any(bounds[toString(service)]) AS bound_seconds,
    count() AS intervals,
    max(seconds) AS worst_seconds,
    if(intervals >= {least:UInt32}, avg(at_least > bounds[toString(service)]), NULL) AS value
FROM reported
GROUP BY cluster, service
