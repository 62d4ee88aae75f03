-- One row: a day or hour of the billing zone in which a scheduler reported fragmentation.
-- Units:   GPUs on average: fragmented are idle and of no use to what is asked for, idle is not held.
-- Parameters: start, end DateTime64(3) (UTC); zone String; grain String ('day' | 'hour'); clusters Array(String), empty: all
SELECT step, sum(f) AS fragmented, sum(c) - sum(h) AS idle
FROM
(
    SELECT
        cluster,
        dateTrunc({grain:String}, ts, {zone:String}) AS step,
        avgIf(value, metric = 'fragmented_gpus') AS f,
        avgIf(value, metric = 'capacity_gpus') AS c,
        avgIf(value, metric = 'held_gpus') AS h
    FROM service_levels
    WHERE service = 'scheduler' AND workload_id = '' AND metric IN ('fragmented_gpus', 'capacity_gpus', 'held_gpus')
        AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
        AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
    GROUP BY cluster, step
)
GROUP BY step
ORDER BY step
