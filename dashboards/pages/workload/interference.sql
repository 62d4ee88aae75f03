-- One row: an hour or, of short spans, a window in which it is known how fast the workload ran against what it does alone.
-- slowdown: 1 = as alone, the mean of the windows; disturbed: how many of its windows were.
-- Parameters: workload String; start, end DateTime64(3) (UTC); seconds UInt32, the step
SELECT
    toStartOfInterval(at - INTERVAL 1 SECOND, toIntervalSecond({seconds:UInt32}), 'UTC') AS step,
    avg(i.slowdown) AS slowdown,
    countIf(disturbed = true) AS disturbed,
    arraySort(groupUniqArrayArray(i.channels)) AS channels
FROM interference AS i
WHERE workload_id = {workload:String} AND hour >= {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
    AND i.slowdown IS NOT NULL
GROUP BY step
ORDER BY step
