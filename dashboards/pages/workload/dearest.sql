-- One row: a workload that held something in the period, the dearest first. in_all: how many there are.
-- Traps: of all workloads their names and devices cost three times what this does; workloads.sql asks for those of the shown.
-- Parameters: find String, a part of the name in any case, empty: all; most UInt32; those of ({days})
SELECT workload_id, count() OVER () AS in_all
FROM ({days}) AS l
WHERE is_held AND ({find:String} = '' OR positionCaseInsensitiveUTF8(workload_id, {find:String}) > 0)
GROUP BY workload_id
ORDER BY sum(l.list_cost) DESC NULLS LAST, round(sum(l.allocated), 6) DESC, workload_id
LIMIT {most:UInt32}
