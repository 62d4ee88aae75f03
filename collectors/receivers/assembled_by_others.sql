-- How many instants others than this one assembled in the last while.
SELECT count() AS instants
FROM pushed_instants
WHERE assembled AND by != {mine:UUID} AND received_at >= now64(3, 'UTC') - toIntervalSecond({seconds:UInt32})
