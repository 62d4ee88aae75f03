-- One row: a series at an instant, see the view slo_status.
-- Shape:   shared_part: of the GPU-hours that its queue or service held in closed hours of the day before, the part on devices
--          whose isolation level promises no such objective (warehouse/isolation.py); NULL: the kind depends on no neighbours,
--          nothing was held, or no level is known. Tenants as reported, as in the series; a service is one tenant's.
-- Params:  at; all_tenants = 1, or tenant = the only one; of_queues, of_services: kinds that take a device of one's own, by
--          whose they are; unfit: levels that do not promise them.
WITH
    held AS
    (
        SELECT
            cluster, allocation_id, workload_id, toFloat64(sum(allocated_gpu_hours)) AS hours,
            toFloat64(sumIf(allocated_gpu_hours, has({unfit:Array(String)}, isolation_level))) AS unfit_hours,
            toFloat64(sumIf(allocated_gpu_hours, isolation_level != '')) AS known_hours
        FROM v_usage_hourly
        WHERE hour >= {at:DateTime64(3, 'UTC')} - INTERVAL 1 DAY AND hour < {at:DateTime64(3, 'UTC')}
            AND (SELECT count() FROM slo_objectives
                 WHERE has({of_queues:Array(String)}, kind) OR has({of_services:Array(String)}, kind)) > 0
        GROUP BY cluster, allocation_id, workload_id
    ),
    whose AS
    (
        SELECT cluster, false AS is_service, allocation_id AS held_by,
            any(if(reported_tenant != '', toString(reported_tenant), toString(m.tenant))) AS tenant, any(toString(queue)) AS subject
        FROM allocations AS m
        WHERE end_at IS NULL OR end_at > {at:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
        GROUP BY cluster, allocation_id
        UNION ALL
        SELECT DISTINCT cluster, true, workload_id, '', toString(service)
        FROM service_levels
        WHERE ts >= {at:DateTime64(3, 'UTC')} - INTERVAL 1 DAY AND ts < {at:DateTime64(3, 'UTC')} AND workload_id != ''
    ),
    levels AS
    (
        SELECT w.cluster AS cluster, w.tenant AS tenant, w.subject AS subject, w.is_service AS is_service,
            if(sum(known_hours) > 0, sum(unfit_hours) / sum(hours), NULL) AS shared_part
        FROM (SELECT *, arrayJoin([(false, allocation_id), (true, workload_id)]) AS held_by FROM held) AS h
        INNER JOIN whose AS w ON h.cluster = w.cluster AND h.held_by.1 = w.is_service AND h.held_by.2 = w.held_by
        GROUP BY cluster, tenant, subject, is_service
    )
SELECT
    objective, definition, kind, unit, cluster, tenant, subject, owner, target, window_seconds, measured_until, good, bad,
    missing, dark_seconds, sli, coverage, budget_left, state, burn_5m, burn_30m, burn_1h, burn_6h, burn_3d, limit_fast,
    limit_medium, limit_slow, burning,
    if(has({of_queues:Array(String)}, kind) OR of_service, l.shared_part, NULL) AS shared_part
FROM (SELECT *, has({of_services:Array(String)}, kind) AS of_service FROM slo_status(at = {at:DateTime64(3, 'UTC')})) AS o
LEFT JOIN levels AS l
    ON o.cluster = l.cluster AND o.subject = l.subject AND o.of_service = l.is_service AND if(o.of_service, '', o.tenant) = l.tenant
WHERE {all_tenants:UInt8} = 1 OR tenant = {tenant:String}
ORDER BY budget_left ASC NULLS LAST, objective, cluster, tenant, subject
