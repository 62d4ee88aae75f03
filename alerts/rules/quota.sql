-- One row: somebody with a guarantee or a limit (GPUs), and what is held and asked for.
-- Units:   held, asked, missing, over: GPUs; a share counts as its part. value: the one of them that {judge} names:
--          missing = min(guaranteed, held + asked) - held, what is owed and wanted; over = held - limit.
-- Shape:   asked counts what has waited for {grace_seconds} or longer. Without a quota: no row. Quotas are those of the
--          parameter, of all clusters together, and those that Kueue and Volcano state of their queues (service_levels,
--          newest within 15 minutes); of a queue that the parameter names, the parameter's.
-- Unknown: the size of what is held of a device that is not in the inventory (a GPU at most), and of what names neither
--          devices nor GPUs; held and asked are without it, unknown_sizes says of how many. value: what it is at least,
--          if that is above zero, or zero or less; null: that depends on it. A row without units holds as many as its
--          device had then. What is held of a removed device is nothing.
-- Params:  at; by = tenant, project or queue; quotas = JSON of name to GPUs; judge = missing or over; grace_seconds.
WITH
    inventory AS
    (
        SELECT cluster, device_id, argMax(d.units, (ts, d.state, d.units)) AS units,
            arrayMap(one -> (one.1, one.3), arraySort(groupArray((ts, d.state, d.units)))) AS history,
            argMax(state, (ts, state)) = 'removed' AS is_removed
        FROM devices AS d
        WHERE ts <= {at:DateTime64(3, 'UTC')}
        GROUP BY cluster, device_id
    ),
    held AS
    (
        SELECT
            owner.1 AS origin, owner.2 AS cluster, owner.3 AS name,
            sum(if(h.device_id = '', ifNull(h.gpus, 0), if(h.device_units = 0 OR h.is_removed, 0, least(1, units_held / h.device_units)))) AS gpus,
            countIf(h.device_id != '' AND h.device_units = 0) AS unlisted,
            countIf(h.device_id = '' AND h.gpus IS NULL) AS uncounted
        FROM
        (
            SELECT
                one.*, d.units AS device_units, d.is_removed AS is_removed,
                ifNull(one.units, if(d.history[1].1 > one.placed_at, d.history[1], arrayLast(state -> state.1 <= one.placed_at, d.history)).2) AS units_held
            FROM holders(at = {at:DateTime64(3, 'UTC')}) AS one
            LEFT JOIN inventory AS d ON one.cluster = d.cluster AND one.device_id = d.device_id
        ) AS h
        ARRAY JOIN
        [
            ('given', '', caseWithExpression({by:String}, 'tenant', toString(h.tenant), 'project', toString(h.project), toString(h.queue))),
            ('stated', toString(h.cluster), toString(h.queue))
        ] AS owner
        GROUP BY origin, cluster, name
    ),
    asked AS
    (
        SELECT
            owner.1 AS origin, owner.2 AS cluster, owner.3 AS name,
            sum(ifNull(w.gpus, 0)) AS gpus,
            countIf(w.gpus IS NULL) AS uncounted
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
    ),
    bounds AS
    (
        SELECT
            quotas.cluster AS cluster, quotas.by AS by, quotas.name AS name, quotas.gpus AS quota_gpus,
            held.gpus AS held_gpus, asked.gpus AS asked_gpus, held.unlisted + held.uncounted + asked.uncounted AS unknown,
            held_gpus + if(held.uncounted > 0, inf, held.unlisted) AS most_held,
            asked_gpus + if(asked.uncounted > 0, inf, 0) AS most_asked,
            (if(isInfinite(most_held), -inf, round(least(quota_gpus, most_held + asked_gpus) - most_held, 6)),
             round(least(quota_gpus, held_gpus + most_asked) - held_gpus, 6)) AS missing,
            (round(held_gpus - quota_gpus, 6), round(most_held - quota_gpus, 6)) AS over
        FROM quotas
        LEFT JOIN held ON quotas.origin = held.origin AND quotas.cluster = held.cluster AND quotas.name = held.name
        LEFT JOIN asked ON quotas.origin = asked.origin AND quotas.cluster = asked.cluster AND quotas.name = asked.name
    )
SELECT
    cluster, by, name, quota_gpus, held_gpus, asked_gpus,
    nullIf(unknown, 0) AS unknown_sizes,
    multiIf(bounds.missing.1 > 0, bounds.missing.1, bounds.missing.2 <= 0 OR unknown = 0, bounds.missing.2, NULL) AS missing,
    multiIf(bounds.over.1 > 0, bounds.over.1, bounds.over.2 <= 0 OR unknown = 0, bounds.over.2, NULL) AS over,
    if({judge:String} = 'missing', missing, over) AS value
FROM bounds
