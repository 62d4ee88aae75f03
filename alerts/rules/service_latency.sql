-- One row: a service of a tenant with a bound, and in which part of the last window its quantile was above it for certain.
-- Shape:   two tenants may have a service of one name. What was reported without a tenant is that of the only one that has it.
-- Units:   value: 0-1 of the intervals that tell; one counts as slow if even the low edge of its histogram bucket is above
--          the bound. Null: fewer than {least} intervals tell.
-- Params:  at; window_seconds; metric, quantile; bounds = JSON of service to seconds: others are not judged; least.
WITH reported AS
(
    SELECT
        cluster, service, owner, ts,
        JSONExtract({bounds:String}, 'Map(String, Float64)') AS bounds,
        max(value) AS seconds,
        max(ifNull(value_low, value)) AS at_least
    FROM (SELECT cluster, service, ts, value, value_low,
              multiIf(tenant != '', toString(tenant),
                  minIf(toString(tenant), tenant != '') OVER named = max(toString(tenant)) OVER named, max(toString(tenant)) OVER named, '') AS owner
          FROM service_levels
          WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric = {metric:String}
              AND abs(service_levels.quantile - {quantile:Float64}) < 1e-9
              AND mapContains(JSONExtract({bounds:String}, 'Map(String, Float64)'), toString(service))
          WINDOW named AS (PARTITION BY cluster, service))
    GROUP BY cluster, service, owner, ts
    HAVING at_least IS NOT NULL
)
SELECT
    cluster, service, owner AS tenant,
    any(bounds[toString(service)]) AS bound_seconds,
    count() AS intervals,
    max(seconds) AS worst_seconds,
    if(intervals >= {least:UInt32}, avg(at_least > bounds[toString(service)]), NULL) AS value
FROM reported
GROUP BY cluster, service, owner
