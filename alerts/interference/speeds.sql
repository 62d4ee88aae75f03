-- One row: how fast an identity runs beside another, see the view colocation_speeds.
-- Params:  (since, until]; model, cluster: regular expressions.
SELECT identity, neighbour, speed, windows, pairs
FROM colocation_speeds(since = {since:DateTime64(3, 'UTC')}, until = {until:DateTime64(3, 'UTC')})
WHERE match(model, {model:String}) AND match(cluster, {cluster:String})
ORDER BY identity, neighbour
