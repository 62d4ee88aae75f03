-- One row: what an idle policy took back from a workload, of devices with one number of units at one price: GPUs that it held
-- until `at` and not after. ended_at, ended_by: the first event since then by which it asked for GPUs again, was given
-- more, or was over (1970 and '': none).
-- Of a job that the Kubernetes operator runs (`job`; '' of others), the workload is the job and the allocation its attempt:
-- what `pods` held that ended then, of its placement of that number; replicas: so many it keeps. What ended that follows
-- from job_placements.sql, and ended_by is ''. A message is its sender's: one that the operator did not write names no job.
-- Units:   units of a device that has device_units; prices per GPU-hour, NULL where unknown.
-- Shape:   what the ledger does not have as held is absent.
-- Params:  start, end = [start, end): when it was taken back, and events after that do not count.
--          $$read: a condition on close_batches, of the closes whose facts count, with its params last and others
--          (billing.close.facts).
WITH
    known AS
    (
        SELECT
            ts, toString(cluster) AS cluster, allocation_id, if(workload_id = '', allocation_id, workload_id) AS workload,
            event, reason, actor, message, gpus
        FROM events
        WHERE ts >= {start:DateTime64(3, 'UTC')} AND ts < {end:DateTime64(3, 'UTC')}
            AND (batch = 0 OR batch IN (SELECT arrayJoin(batches) FROM close_batches WHERE $read))
    ),
    reclaims AS
    (
        SELECT
            cluster, allocation_id, event, ts AS at, min(workload) AS workload, min(actor) AS actor, min(message) AS message,
            if(JSONExtractString(message, 'act') IN ('shrunk', 'suspended', 'cancelled')
                AND match(JSONExtractString(message, 'job'), '^[^/]+/[^/]+$$'), JSONExtractString(message, 'job'), '') AS job
        FROM known
        WHERE reason IN ('IdleReclaimed', 'IdleReclaimed, end estimated') AND event IN ('resized', 'suspended', 'cancelled')
        GROUP BY cluster, allocation_id, event, at
    ),
    later AS
    (
        SELECT
            ts, cluster, allocation_id, workload, event, reason,
            event IN ('started', 'resized') AND gpus > lagInFrame(gpus) OVER (
                PARTITION BY cluster, allocation_id, event IN ('started', 'resized') ORDER BY ts
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS grew
        FROM known
        WHERE (cluster, workload) IN (SELECT cluster, workload FROM reclaims WHERE job = '')
    ),
    followed AS
    (
        SELECT
            reclaims.cluster AS cluster, reclaims.allocation_id AS allocation_id, reclaims.event AS act, reclaims.at AS at,
            argMin((later.ts, later.event, later.reason), (later.ts, later.event)) AS first
        FROM later
        INNER JOIN reclaims ON later.cluster = reclaims.cluster AND later.workload = reclaims.workload
        WHERE later.reason NOT IN ('IdleReclaimed', 'IdleReclaimed, end estimated')
            AND (later.ts > reclaims.at OR (later.ts = reclaims.at AND later.allocation_id != reclaims.allocation_id))
            AND (later.event != 'resized' OR later.reason = 'Rescaled' OR later.grew)
        GROUP BY cluster, allocation_id, act, at
    ),
    held AS
    (
        SELECT
            reclaims.cluster AS cluster, reclaims.allocation_id AS allocation_id, reclaims.event AS act, reclaims.at AS at,
            any(reclaims.workload) AS workload, any(reclaims.actor) AS actor, any(reclaims.message) AS message,
            any(reclaims.job) AS job,
            any(ledger.device_units) AS device_units,
            argMaxIf((tenant, project, contracted_unit_price), charge_period_start, charge_period_start < at) AS paid,
            toInt64(sumIf(units, charge_period_start < at AND charge_period_end >= at))
                - toInt64(sumIf(units, charge_period_start <= at AND charge_period_end > at)) AS given_up
        FROM ledger
        INNER JOIN reclaims ON ledger.cluster = reclaims.cluster AND ledger.allocation_id = reclaims.allocation_id
        WHERE hour IN (SELECT toStartOfHour(arrayJoin([at, at - toIntervalMillisecond(1)])) FROM reclaims)
        GROUP BY cluster, allocation_id, act, at, device_id, partition_id
        HAVING given_up > 0
    )
SELECT
    held.at AS at, if(job = '', held.act, JSONExtractString(message, 'act')) AS act, held.cluster AS cluster,
    if(job = '', held.workload, job) AS workload,
    if(job = '', held.allocation_id, JSONExtractString(message, 'allocation')) AS allocation_id, job,
    JSONExtractUInt(message, 'world') AS placement, JSONExtractUInt(message, 'left') AS replicas,
    arraySort(groupUniqArrayIf(held.allocation_id, job != '')) AS pods, actor,
    extract(JSONExtractString(message, 'text'), '^(idle for [^;"[:cntrl:]]{0,200})') AS evidence,
    JSONExtractString(message, 'time_limit_at') AS time_limit_at,
    tupleElement(first, 1) AS ended_at, tupleElement(first, 2) AS ended_by, tupleElement(first, 3) AS ended_reason,
    tupleElement(paid, 1) AS tenant, tupleElement(paid, 2) AS project, tupleElement(paid, 3) AS contracted_unit_price,
    device_units, sum(given_up) AS units
FROM held
LEFT JOIN followed ON held.cluster = followed.cluster AND held.allocation_id = followed.allocation_id
    AND held.act = followed.act AND held.at = followed.at
GROUP BY ALL
ORDER BY at, cluster, allocation_id, act, tenant, project, job, placement, replicas, time_limit_at, actor, evidence,
    device_units, contracted_unit_price
