-- One row: an entry of the ledger, of the chosen devices in hours that runs closed. Entries of an hour and a run never change.
-- Params:  hours Array(UInt32), in Unix seconds, and runs Array(UInt64), of each; since, until DateTime64(3) (UTC): entries
--          that begin in [since, until) alone; pools, models, clusters Array(String), empty: all.
SELECT *
FROM ledger_entries
WHERE (hour, run) IN (SELECT arrayJoin(arrayZip({hours:Array(UInt32)}, {runs:Array(UInt64)})))
    AND charge_period_start >= {since:DateTime64(3,'UTC')} AND charge_period_start < {until:DateTime64(3,'UTC')}
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
