-- One row: an instant of a target of which something was pushed and not assembled yet, in the order of their times.
-- age_seconds: since the last of it came, by the store's clock.   waits_seconds: since the first.
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
