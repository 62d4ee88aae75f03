-- One row: an allocation claims units of a device (or of a node, where only that is known) during [start_ms, end_ms).
-- Units:   ms since the epoch; end_ms = {forever:Int64} while no end is known; units 0 = all of the device.
-- Shape:   a claim for each device row of started, resized or resumed; cut by what replaces or ends it:
--          a terminal event, a later full set of rows (resized, resumed with devices), a later row of the same
--          device; suspended time is taken out, unless a resumption never came.
-- Params:  events: the table of them, or those of the allocations that are looked at.
-- Reads:   the least of a group of tuples is the first of them sorted, which is twice as fast as min. Events are few
--          beside samples: without the settings the engine would read them with one core.
-- Traps:   a start and a resize of a device may share a millisecond; both are replaced by the next row after it. Of what
--          is placed in one millisecond, the resize counts before the resumption, and that before the start.
--          a terminal event in the same millisecond as a start ends that start (a job of no length), except
--          when an earlier start is still open: then it ends the earlier one (a restart).
INSERT INTO {claims:Identifier}
WITH
    ['preempted', 'finished', 'failed', 'cancelled', 'rejected'] AS terminal,
    lifecycle AS
    (
        SELECT
            cluster,
            allocation_id,
            arraySort(groupUniqArrayIf(toUnixTimestamp64Milli(ts), has(terminal, event))) AS ends,
            arraySort(groupUniqArrayIf(toUnixTimestamp64Milli(ts), event IN ('started', 'resized', 'resumed'))) AS placings,
            arraySort(groupUniqArrayIf(toUnixTimestamp64Milli(ts), event = 'resized' OR (event = 'resumed' AND (device_id != '' OR node != '')))) AS replacings,
            groupUniqArrayIf(toUnixTimestamp64Milli(ts), event = 'resized') AS resizings,
            arraySort(groupUniqArrayIf(toUnixTimestamp64Milli(ts), event = 'suspended')) AS suspensions,
            arraySort(groupUniqArrayIf(toUnixTimestamp64Milli(ts), event = 'resumed')) AS resumptions,
            min(if(tenant = '', NULL, tenant)) AS some_tenant,
            min(if(project = '', NULL, project)) AS some_project,
            min(if(queue = '', NULL, queue)) AS some_queue,
            min(if(workload_id = '', NULL, workload_id)) AS some_workload,
            max(preemptible) AS some_preemptible,
            max(gpus) AS some_gpus,
            max(priority) AS some_priority
        FROM {events:Identifier}
        WHERE batch IN {batches:Identifier}
        GROUP BY cluster, allocation_id
        HAVING notEmpty(placings)
    ),
    placed AS
    (
        SELECT
            cluster,
            allocation_id,
            device_id,
            partition_id,
            row.2 AS event,
            row.1 AS start_ms,
            row.3 AS reported,
            arrayFirst(x -> x > start_ms, arrayPushBack(sorted.1, {forever:Int64})) AS next_row
        FROM
        (
            SELECT
                cluster,
                allocation_id,
                device_id,
                partition_id,
                arraySort(groupArray((
                    toUnixTimestamp64Milli(ts), toString(event),
                    (tenant, project, queue, workload_id, node, source, partition_profile, ifNull(units, 0), gpus, priority)))) AS sorted
            FROM {events:Identifier}
            WHERE batch IN {batches:Identifier} AND event IN ('started', 'resized', 'resumed') AND (device_id != '' OR node != '')
            GROUP BY cluster, allocation_id, device_id, partition_id
        )
        ARRAY JOIN arrayCompact(x -> (x.1, x.2), sorted) AS row
    ),
    ended AS
    (
        SELECT
            placed.*,
            lifecycle.*,
            arrayMax(arrayFilter(x -> x < start_ms, placings)) AS placed_before,
            arrayMax(arrayFilter(x -> x < start_ms, ends)) AS ended_before,
            event = 'started' AND placed_before > 0 AND ended_before < placed_before AS is_restart,
            arrayMin(arrayPushBack(arrayFilter(x -> x > start_ms OR (x = start_ms AND NOT is_restart), ends), {forever:Int64})) AS end_event,
            arrayMin(arrayPushBack(arrayFilter(x -> x > start_ms OR (x = start_ms AND (event = 'started' OR (event = 'resumed' AND has(resizings, x)))), replacings), {forever:Int64})) AS replaced_at,
            least(end_event, replaced_at, next_row) AS stop_ms,
            arrayFilter(x -> x >= start_ms, suspensions) AS pauses,
            arrayMap(x -> arrayMin(arrayPushBack(arrayFilter(y -> y > x, resumptions), {forever:Int64})), pauses) AS restarts,
            arrayFilter(
                piece -> piece.2 > piece.1,
                arrayMap(
                    (a, b) -> (greatest(start_ms, a), least(stop_ms, b)),
                    arrayPushFront(restarts, start_ms),
                    arrayPushBack(pauses, {forever:Int64}))) AS pieces,
            notEmpty(ends) AND arrayMax(ends) < arrayMin(placings) AS ends_before_it_starts
        FROM placed
        INNER JOIN lifecycle ON placed.cluster = lifecycle.cluster AND placed.allocation_id = lifecycle.allocation_id
    )
SELECT
    cityHash64(cluster, allocation_id, device_id, partition_id, if(device_id = '', reported.5, ''), piece.1) AS claim,
    cluster,
    reported.6 AS source,
    allocation_id,
    coalesce(nullIf(reported.4, ''), some_workload, allocation_id) AS workload_id,
    coalesce(nullIf(reported.1, ''), some_tenant, '') AS tenant,
    coalesce(nullIf(reported.2, ''), some_project, '') AS project,
    coalesce(nullIf(reported.3, ''), some_queue, '') AS queue,
    ifNull(some_preemptible, false) AS preemptible,
    coalesce(reported.10, some_priority) AS priority,
    reported.5 AS node,
    device_id,
    partition_id,
    reported.7 AS partition_profile,
    reported.8 AS units,
    coalesce(reported.9, some_gpus, 1) AS gpus,
    piece.1 AS start_ms,
    piece.2 AS end_ms,
    ends_before_it_starts,
    '' AS estimated
FROM ended
ARRAY JOIN pieces AS piece
SETTINGS merge_tree_min_rows_for_concurrent_read = 8192, merge_tree_min_bytes_for_concurrent_read = 1
