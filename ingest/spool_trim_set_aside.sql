-- Deletes the oldest set-aside bodies, so that the rest fits (SQLite). ?1 bytes; the newest one always stays.
DELETE FROM set_aside
WHERE seq IN
(
    SELECT seq
    FROM (SELECT seq, sum(length(body)) OVER (ORDER BY seq DESC) AS newer, row_number() OVER (ORDER BY seq DESC) AS n FROM set_aside)
    WHERE newer > ?1 AND n > 1
)
