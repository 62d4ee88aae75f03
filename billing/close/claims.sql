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
            arraySort(groupArrayIf(
                (device_id, partition_id, toUnixTimestamp64Milli(ts), toString(event),
                    (tenant, project, queue, workload_id, node, source, partition_profile, ifNull(units, 0), gpus, priority)),
                event IN ('started', 'resized', 'resumed') AND (device_id != '' OR node != ''))) AS reports,
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
        HAVING notEmpty(reports)
    ),
    placed AS
    (
        SELECT
            * EXCEPT reports,
            row.1 AS device_id,
            row.2 AS partition_id,
            row.3 AS start_ms,
            row.4 AS event,
            row.5 AS reported,
            next_row
        FROM
        (
            SELECT
                *,
                arrayCompact(x -> (x.1, x.2, x.3, x.4), reports) AS rows,
                arrayMap(x -> (x.1, x.2, x.3), rows) AS stamps,
                arrayDistinct(stamps) AS instants,
                arrayMap(
                    (this, following) -> if((following.1, following.2) = (this.1, this.2), following.3, {forever:Int64}),
                    instants, arrayPushBack(arrayPopFront(instants), ('', '', {forever:Int64}))) AS nexts,
                arrayMap(place -> nexts[place], arrayEnumerateDense(stamps)) AS next_rows
            FROM lifecycle
        )
        ARRAY JOIN rows AS row, next_rows AS next_row
    ),
    ended AS
    (
        SELECT
            *,
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
