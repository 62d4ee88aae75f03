-- One row: what holders of one value of each dimension asked for (empty where it was not asked for, and for the
-- platform, held = 0, where it is about holders) have in the closed hours of a period, on devices with one number of units.
-- Units:   held_unit_ms, measured_unit_ms; millijoules of the devices; with_pue = millijoules x PUE x 1e9;
--          grams = millijoules x PUE x 1e9 x grams per kWh x 1e9; without_pue, without_intensity = millijoules of which
--          PUE (counted as 1) or intensity (counted in no grams) is not known.
-- Params:  start, end = [start, end); by = names of dimensions; timezone = where days are cut; grid, payers = tables
--          (see stage_grid.sql, stage_payers.sql).
WITH parts AS
(
    SELECT
        tenant, project, queue, workload_id, cluster, node, device_id, model, pool, hour, charge_period_start, allocation_id, device_units,
        toInt128(used_unit_ms + idle_unit_ms) + unmetered_unit_ms + unallocated_unit_ms + unavailable_unit_ms AS held_unit_ms,
        toInt64(0) AS measured, toInt64(0) AS mj, toInt64(0) AS pue, toInt64(0) AS intensity, false AS no_pue, false AS no_intensity
    FROM ledger
    WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
    UNION ALL
    SELECT
        tenant, project, queue, workload_id, cluster, node, device_id, model, pool, hour, charge_period_start, allocation_id, device_units,
        toInt128(0) AS held_unit_ms,
        measured_unit_ms AS measured, ifNull(energy_millijoules, 0) AS mj,
        coalesce(grid.pue_nano, payers.pue_nano, 1000000000) AS pue, ifNull(grid.grams_nano, 0) AS intensity,
        isNull(grid.pue_nano) AND isNull(payers.pue_nano) AS no_pue, isNull(grid.grams_nano) AS no_intensity
    FROM energy
    LEFT JOIN {grid:Identifier} AS grid
        ON toUInt32(intDiv(toUnixTimestamp(energy.hour), 3600)) = grid.epoch_hour AND energy.cluster = grid.place_cluster AND energy.pool = grid.place_pool
    LEFT JOIN {payers:Identifier} AS payers
        ON energy.tenant = payers.payer_tenant AND energy.project = payers.payer_project AND energy.queue = payers.payer_queue
        AND energy.sku = payers.payer_sku AND energy.preemptible = payers.payer_preemptible
        AND formatDateTime(energy.charge_period_start, '%Y-%m', {timezone:String}) = payers.payer_month
    WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
)
SELECT
    allocation_id != '' AS held,
    if(held AND has({by:Array(String)}, 'tenant'), tenant, '') AS by_tenant,
    if(held AND has({by:Array(String)}, 'project'), project, '') AS by_project,
    if(held AND has({by:Array(String)}, 'queue'), queue, '') AS by_queue,
    if(held AND has({by:Array(String)}, 'workload'), workload_id, '') AS by_workload,
    if(has({by:Array(String)}, 'cluster'), cluster, '') AS by_cluster,
    if(has({by:Array(String)}, 'node'), node, '') AS by_node,
    if(has({by:Array(String)}, 'device'), device_id, '') AS by_device,
    if(has({by:Array(String)}, 'model'), model, '') AS by_model,
    if(has({by:Array(String)}, 'pool'), pool, '') AS by_pool,
    if(has({by:Array(String)}, 'day'), toString(toDate(charge_period_start, {timezone:String})), '') AS by_day,
    if(has({by:Array(String)}, 'hour'), formatDateTime(hour, '%Y-%m-%dT%H:00:00.000Z'), '') AS by_hour,
    device_units,
    sum(parts.held_unit_ms) AS held_unit_ms,
    sum(toInt128(measured)) AS measured_unit_ms,
    sum(toInt128(mj)) AS millijoules,
    sum(toInt256(mj) * pue) AS with_pue,
    sum(toInt256(mj) * pue * intensity) AS grams,
    sumIf(toInt128(mj), no_pue) AS without_pue,
    sumIf(toInt128(mj), no_intensity) AS without_intensity
FROM parts
GROUP BY ALL
ORDER BY
    held DESC, by_tenant, by_project, by_queue, by_workload, by_cluster, by_node, by_device, by_model, by_pool, by_day, by_hour
