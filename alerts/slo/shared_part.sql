-- One row: a queue or service that objectives are about, and what of its GPU-hours is on devices whose isolation level promises
-- no such objective (warehouse/isolation.py).
-- Shape:   shared_part: of the GPU-hours that it held in closed hours of the day before; NULL: no level is known. Tenants as
--          reported, as in the series; a service is one tenant's. Nothing where no kind of the objectives asks for it.
-- Params:  at; of_queues, of_services: kinds that take a device of one's own, by whose they are; unfit: levels that do not
--          promise them.
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
    )
SELECT w.cluster AS cluster, w.tenant AS tenant, w.subject AS subject, w.is_service AS is_service,
    if(sum(known_hours) > 0, sum(unfit_hours) / sum(hours), NULL) AS shared_part
FROM (SELECT *, arrayJoin([(false, allocation_id), (true, workload_id)]) AS held_by FROM held) AS h
INNER JOIN whose AS w ON h.cluster = w.cluster AND h.held_by.1 = w.is_service AND h.held_by.2 = w.held_by
GROUP BY cluster, tenant, subject, is_service
