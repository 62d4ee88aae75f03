-- One row: an instant of a target with pushed points that are not assembled yet, in order of time.
-- age_seconds: since its last point arrived, by the store's clock.   waits_seconds: since its first.
SELECT sender, target, ts, groupArray(push) AS pushes,
    min(age) AS age_seconds, max(age) AS waits_seconds
FROM
(
    SELECT sender, target, ts, push, dateDiff('millisecond', min(received_at), now64(3, 'UTC')) / 1000 AS age
    FROM pushed_instants
    GROUP BY sender, target, ts, push
    HAVING NOT max(assembled)
)
GROUP BY sender, target, ts
ORDER BY sender, target, ts
LIMIT {most:UInt64}
