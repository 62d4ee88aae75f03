-- Adds points of metering_coverage: of the GPU-time that was held, what was metered.
-- Units:   GPU-seconds, of the ledger's entries, at their end.
-- Params:  run; definitions; [since, until), since on the hour.
INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds)
SELECT
    o.definition AS definition,
    {run:UInt64} AS run,
    entry.hour AS hour,
    toDateTime(intDiv(toUnixTimestamp64Milli(entry.charge_period_end) - 1, 300000) * 300 + 300, 'UTC') AS at,
    entry.cluster AS cluster, entry.tenant AS tenant, entry.queue AS subject,
    sum(toFloat64(entry.used_unit_ms + entry.idle_unit_ms) / entry.device_units) / 1000 AS good,
    sum(entry.unmetered_unit_ms / entry.device_units) / 1000 AS bad,
    0 AS missing,
    0 AS dark_seconds
FROM ledger AS entry
CROSS JOIN
(
    SELECT definition, cluster, tenant, queue
    FROM slo_objectives
    WHERE has({definitions:Array(String)}, definition) AND kind = 'metering_coverage'
) AS o
WHERE entry.allocation_id != ''
    AND entry.hour >= toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND entry.hour < toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
    AND match(entry.cluster, o.cluster) AND match(entry.tenant, o.tenant) AND match(entry.queue, o.queue)
GROUP BY definition, hour, at, cluster, tenant, subject
HAVING good + bad > 0
