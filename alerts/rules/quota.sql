-- One row: somebody with a guarantee or a limit (GPUs), and what is held and asked for.
-- Units:   held, asked, missing, over: GPUs; a share counts as its part. value: the one of them that {judge} names:
--          missing = min(guaranteed, held + asked) - held, what is owed and wanted; over = held - limit.
-- Shape:   asked counts what has waited for {grace_seconds} or longer. Without a quota: no row.
-- Params:  at; by = tenant, project or queue; quotas = JSON of name to GPUs; judge = missing or over; grace_seconds.
WITH
    devices AS (SELECT cluster, device_id, units FROM devices_at(at = {at:DateTime64(3, 'UTC')})),
    held AS
    (
        SELECT
            caseWithExpression({by:String}, 'tenant', toString(h.tenant), 'project', toString(h.project), toString(h.queue)) AS name,
            sum(if(h.device_id = '', ifNull(h.gpus, 0), ifNull(h.units, d.units) / d.units)) AS gpus
        FROM holders(at = {at:DateTime64(3, 'UTC')}) AS h
        LEFT JOIN devices AS d ON h.cluster = d.cluster AND h.device_id = d.device_id
        WHERE h.device_id = '' OR d.units > 0
        GROUP BY name
    ),
    asked AS
    (
        SELECT
            caseWithExpression({by:String}, 'tenant', toString(tenant), 'project', toString(project), toString(queue)) AS name,
            sum(ifNull(gpus, 0)) AS gpus,
            min(submitted_at) AS oldest_since
        FROM waiters(at = {at:DateTime64(3, 'UTC')})
        WHERE submitted_at <= {at:DateTime64(3, 'UTC')} - toIntervalSecond({grace_seconds:UInt32})
        GROUP BY name
    ),
    quotas AS (SELECT quota.1 AS name, quota.2 AS gpus FROM (SELECT arrayJoin(JSONExtractKeysAndValues({quotas:String}, 'Float64')) AS quota))
SELECT
    quotas.name AS name,
    {by:String} AS by,
    quotas.gpus AS quota_gpus,
    held.gpus AS held_gpus,
    asked.gpus AS asked_gpus,
    round(least(quota_gpus, held_gpus + asked_gpus) - held_gpus, 6) AS missing,
    round(held_gpus - quota_gpus, 6) AS over,
    if({judge:String} = 'missing', missing, over) AS value
FROM quotas
LEFT JOIN held ON quotas.name = held.name
LEFT JOIN asked ON quotas.name = asked.name
