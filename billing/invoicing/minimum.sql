-- One row: what the sessions of a tenant's project that ended in a period and were shorter than the minimum lack to it,
-- at one price, on devices with one number of units: their GPU-hours, stretched from their length to the minimum. hour:
-- in which they ended.
-- Units:   lacking_micro_ms: millionths of a unit-millisecond, each session's rounded down; sessions = how many.
-- Traps:   invoice verify sees later months as they are now, where a session may have gone on since: what ended holds nothing then.
-- Params:  start, end = [start, end); minimum_ms; all_tenants = 1, or tenant = the only one.
WITH
    short AS
    (
        SELECT cluster, allocation_id,
            toUnixTimestamp64Milli(max(ifNull(end_at, toDateTime64('2299-01-01 00:00:00', 3, 'UTC')))) - toUnixTimestamp64Milli(min(start_at)) AS length_ms,
            toStartOfHour(max(end_at) - toIntervalMillisecond(1)) AS last_hour
        FROM allocations
        GROUP BY cluster, allocation_id
        HAVING countIf(end_at IS NULL) = 0 AND length_ms > 0 AND length_ms < {minimum_ms:Int64}
            AND max(end_at) > {start:DateTime64(3, 'UTC')} AND max(end_at) <= {end:DateTime64(3, 'UTC')}
    ),
    held AS
    (
        SELECT cluster, allocation_id, tenant, project, sku, list_unit_price, contracted_unit_price, device_units,
            toInt128(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) * 1000000) AS micro_ms
        FROM ledger
        WHERE (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM short)
            AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
            AND charge_period_start < {end:DateTime64(3, 'UTC')}
        GROUP BY ALL
    )
SELECT
    tenant,
    project,
    sku,
    list_unit_price,
    contracted_unit_price,
    device_units,
    toDateTime(assumeNotNull(last_hour), 'UTC') AS hour,
    count() AS sessions,
    sum(intDiv(micro_ms * ({minimum_ms:Int64} - length_ms), toInt128(length_ms))) AS lacking_micro_ms
FROM held
INNER JOIN short ON held.cluster = short.cluster AND held.allocation_id = short.allocation_id
GROUP BY tenant, project, sku, list_unit_price, contracted_unit_price, device_units, hour
ORDER BY tenant, project, sku, list_unit_price, contracted_unit_price, device_units, hour
