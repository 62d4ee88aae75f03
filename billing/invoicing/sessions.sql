-- One row: an allocation that held something in a period and is long enough for a discount: how long it had lasted, and
-- how many GPU-hours it had held, when the period began and when it ended (or the allocation did, if that was earlier).
-- Units:   *_ms: ms; *_micro_ms: millionths of a unit-millisecond on devices of {scale_units:UInt64} units.
-- Params:  start, end = [start, end); all_tenants = 1, or tenant = the only one; at_least_ms or at_least_micro_ms =
--          what is long enough.
WITH
    toUnixTimestamp64Milli({start:DateTime64(3, 'UTC')}) AS opens,
    toUnixTimestamp64Milli({end:DateTime64(3, 'UTC')}) AS closes,
    lives AS
    (
        SELECT cluster, allocation_id, toUnixTimestamp64Milli(min(start_at)) AS begins,
            if(countIf(end_at IS NULL) > 0, closes, toUnixTimestamp64Milli(max(end_at))) AS ends
        FROM allocations
        WHERE start_at < {end:DateTime64(3, 'UTC')}
            AND (cluster, allocation_id) IN
            (
                SELECT DISTINCT cluster, allocation_id
                FROM allocations
                WHERE start_at < {end:DateTime64(3, 'UTC')} AND (end_at IS NULL OR end_at > {start:DateTime64(3, 'UTC')})
                    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
            )
        GROUP BY cluster, allocation_id
    ),
    held AS
    (
        SELECT cluster, allocation_id,
            toInt128(sumIf(toInt128((used_unit_ms + idle_unit_ms + unmetered_unit_ms) * toDecimal128(1000000, 0)) * intDiv({scale_units:UInt64}, device_units),
                charge_period_start < {start:DateTime64(3, 'UTC')})) AS before,
            toInt128(sum(toInt128((used_unit_ms + idle_unit_ms + unmetered_unit_ms) * toDecimal128(1000000, 0)) * intDiv({scale_units:UInt64}, device_units))) AS after
        FROM ledger
        WHERE charge_period_start < {end:DateTime64(3, 'UTC')} AND (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM lives)
        GROUP BY cluster, allocation_id
    )
SELECT
    held.cluster AS session_cluster,
    held.allocation_id AS session,
    toInt64(greatest(0, least(opens, ends) - begins)) AS before_ms,
    toInt64(greatest(0, least(closes, ends) - begins)) AS after_ms,
    held.before AS before_micro_ms,
    held.after AS after_micro_ms
FROM held
INNER JOIN lives ON held.cluster = lives.cluster AND held.allocation_id = lives.allocation_id
WHERE after_ms >= {at_least_ms:Int64} OR after_micro_ms >= toInt128({at_least_micro_ms:String})
ORDER BY session_cluster, session
