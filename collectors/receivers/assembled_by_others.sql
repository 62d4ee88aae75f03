-- One row: how many seconds ago a server other than this one last assembled anything, by the store's clock. NULL: none did
-- recently.
SELECT dateDiff('millisecond', maxOrNull(received_at), now64(3, 'UTC')) / 1000 AS seconds
FROM pushed_instants
WHERE assembled AND by != {mine:UUID} AND received_at >= now64(3, 'UTC') - INTERVAL 1 HOUR
