-- One row: a service of a tenant, and how fast it uses up what its objective for errors allows.
-- Shape:   two tenants may have a service of one name. What was reported without a tenant is that of the only one that has it.
-- Units:   value: 1 = fast enough to alert: the greater of min(1 h, 5 min burn) / {fast_burn} and min(6 h, 30 min burn) /
--          {slow_burn}. A burn of 1 uses exactly what the objective allows. Null: no requests in the last hour.
-- Source:  multi-window, multi-burn-rate alerts: https://sre.google/workbook/alerting-on-slos/
-- Params:  at; objective = part of requests without error; fast_burn, slow_burn.
WITH rates AS
(
    SELECT
        cluster, service, owner, ts,
        max(interval_seconds) AS seconds,
        sumIf(value, metric = 'requests_per_second') * seconds AS requests,
        sumIf(value, metric = 'errors_per_second') * seconds AS errors,
        dateDiff('second', ts, {at:DateTime64(3, 'UTC')}) AS age
    FROM (SELECT cluster, service, ts, metric, value, interval_seconds,
              multiIf(tenant != '', toString(tenant),
                  minIf(toString(tenant), tenant != '') OVER named = max(toString(tenant)) OVER named, max(toString(tenant)) OVER named, '') AS owner
          FROM service_levels FINAL WHERE ts > {at:DateTime64(3, 'UTC')} - INTERVAL 6 HOUR AND ts <= {at:DateTime64(3, 'UTC')}
          AND metric IN ('requests_per_second', 'errors_per_second') AND quantile IS NULL
          WINDOW named AS (PARTITION BY cluster, service))
    GROUP BY cluster, service, owner, ts
)
SELECT
    cluster, service, owner AS tenant,
    sumIf(requests, age < 3600) AS requests_1h,
    sumIf(errors, age < 3600) AS errors_1h,
    (1 - {objective:Float64}) AS allowed,
    if(requests_1h = 0, NULL, errors_1h / requests_1h / allowed) AS burn_1h,
    ifNull(sumIf(errors, age < 300) / nullIf(sumIf(requests, age < 300), 0), 0) / allowed AS burn_5m,
    ifNull(sum(errors) / nullIf(sum(requests), 0), 0) / allowed AS burn_6h,
    ifNull(sumIf(errors, age < 1800) / nullIf(sumIf(requests, age < 1800), 0), 0) / allowed AS burn_30m,
    greatest(least(burn_1h, burn_5m) / {fast_burn:Float64}, least(burn_6h, burn_30m) / {slow_burn:Float64}) AS value
FROM rates
GROUP BY cluster, service, owner
