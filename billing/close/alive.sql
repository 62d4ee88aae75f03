-- One row: an allocation to examine: the last close carried it over, or a fact that no close has read concerns it.
INSERT INTO {alive:Identifier}
SELECT arrayJoin(carried) AS allocation FROM close_carried WHERE run = {last:UInt64}
UNION ALL
SELECT DISTINCT allocation_hash AS allocation
FROM events
WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
