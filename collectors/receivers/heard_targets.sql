-- One row: a target with points within the last hour and rows made from them, and the last instant with rows.
SELECT sender, target, maxIf(ts, assembled) AS last
FROM pushed_instants
WHERE received_at >= now64(3, 'UTC') - INTERVAL 1 HOUR
GROUP BY sender, target
HAVING countIf(assembled) > 0
ORDER BY sender, target
