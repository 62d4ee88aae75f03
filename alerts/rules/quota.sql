-- One row: somebody with a guarantee or a limit (GPUs), and what is held and asked for.
-- Units:   held, asked, missing, over: GPUs; a share counts as its part. value: the one of them that {judge} names:
--          missing = min(guaranteed, held + asked) - held, what is owed and wanted; over = held - limit.
-- Shape:   asked counts what has waited for {grace_seconds} or longer. Without a quota: no row. Quotas are those of the
--          parameter, of all clusters together, and those that Kueue and Volcano state of their queues (service_levels,
--          newest within 15 minutes); of a queue that the parameter names, the parameter's.
-- Params:  at; by = tenant, project or queue; quotas = JSON of name to GPUs; judge = missing or over; grace_seconds.
WITH
    devices AS (SELECT cluster, device_id, units FROM devices_at(at = {at:DateTime64(3, 'UTC')})),
    held AS
    (
        SELECT
            owner.1 AS origin, owner.2 AS cluster, owner.3 AS name,
            sum(if(h.device_id = '', ifNull(h.gpus, 0), ifNull(h.units, d.units) / d.units)) AS gpus
        FROM holders(at = {at:DateTime64(3, 'UTC')}) AS h
        LEFT JOIN devices AS d ON h.cluster = d.cluster AND h.device_id = d.device_id
        ARRAY JOIN
        [
            ('given', '', caseWithExpression({by:String}, 'tenant', toString(h.tenant), 'project', toString(h.project), toString(h.queue))),
            ('stated', toString(h.cluster), toString(h.queue))
        ] AS owner
        WHERE h.device_id = '' OR d.units > 0
        GROUP BY origin, cluster, name
    ),
    asked AS
    (
        SELECT
            owner.1 AS origin, owner.2 AS cluster, owner.3 AS name,
            sum(ifNull(w.gpus, 0)) AS gpus
        FROM waiters(at = {at:DateTime64(3, 'UTC')}) AS w
        ARRAY JOIN
        [
            ('given', '', caseWithExpression({by:String}, 'tenant', toString(w.tenant), 'project', toString(w.project), toString(w.queue))),
            ('stated', toString(w.cluster), toString(w.queue))
        ] AS owner
        WHERE w.submitted_at <= {at:DateTime64(3, 'UTC')} - toIntervalSecond({grace_seconds:UInt32})
        GROUP BY origin, cluster, name
    ),
    given AS (SELECT quota.1 AS name, quota.2 AS gpus FROM (SELECT arrayJoin(JSONExtractKeysAndValues({quotas:String}, 'Float64')) AS quota)),
    newest AS
    (
        SELECT cluster, service, max(ts) AS newest_at
        FROM service_levels
        WHERE startsWith(metric, 'queue_') AND (startsWith(service, 'kueue/') OR startsWith(service, 'volcano/'))
            AND ts > {at:DateTime64(3, 'UTC')} - INTERVAL 15 MINUTE AND ts <= {at:DateTime64(3, 'UTC')}
        GROUP BY cluster, service
    ),
    stated AS
    (
        SELECT cluster, substring(service, position(service, '/') + 1) AS name, assumeNotNull(any(value)) AS gpus
        FROM service_levels
        WHERE metric = if({judge:String} = 'missing', 'queue_guaranteed_gpus', 'queue_limit_gpus') AND value IS NOT NULL
            AND (cluster, service, ts) IN (SELECT cluster, service, newest_at FROM newest)
            AND NOT ({by:String} = 'queue' AND name IN (SELECT name FROM given))
        GROUP BY cluster, service
    ),
    quotas AS
    (
        SELECT 'given' AS origin, '' AS cluster, {by:String} AS by, name, gpus FROM given
        UNION ALL
        SELECT 'stated', toString(cluster), 'queue', name, gpus FROM stated
    )
SELECT
    quotas.cluster AS cluster,
    quotas.by AS by,
    quotas.name AS name,
    quotas.gpus AS quota_gpus,
    held.gpus AS held_gpus,
    asked.gpus AS asked_gpus,
    round(least(quota_gpus, held_gpus + asked_gpus) - held_gpus, 6) AS missing,
    round(held_gpus - quota_gpus, 6) AS over,
    if({judge:String} = 'missing', missing, over) AS value
FROM quotas
LEFT JOIN held ON quotas.origin = held.origin AND quotas.cluster = held.cluster AND quotas.name = held.name
LEFT JOIN asked ON quotas.origin = asked.origin AND quotas.cluster = asked.cluster AND quotas.name = asked.name
