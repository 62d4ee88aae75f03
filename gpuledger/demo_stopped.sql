-- One row: the end of an allocation that the demo's live scheduler stopped, or the start of a later attempt at it, in the
-- order of time. Parameter: resumed String, what later attempts have in their names.
SELECT ts, workload_id, event
FROM v_events
WHERE (event IN ('suspended', 'cancelled') AND reason = 'IdleReclaimed')
   OR (event IN ('started', 'suspended', 'cancelled') AND position(allocation_id, {resumed:String}) > 0)
ORDER BY ts, event DESC
