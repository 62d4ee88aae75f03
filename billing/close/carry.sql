-- Records for the next close which allocations it must examine again: those that hold something now or recently did, and
-- those in a dispute that is not settled. All others stay as published, and so do refused claims and lost ends.
-- Params:  claims, unsettled: of this close; horizon_ms: allocations that ended before it are not examined again;
--          names, parts, fingerprints: of the months of allocations.
INSERT INTO close_carried (run, closed_until, read_at, horizon, rules, prices, facts, hours, allocations, `months.month`, `months.parts`, `months.fingerprint`, carried)
SELECT
    {run:UInt64}, {closed_until:DateTime64(3, 'UTC')}, {read_at:DateTime64(3, 'UTC')}, fromUnixTimestamp64Milli({horizon_ms:Int64}, 'UTC'), {rules:String}, {prices:String},
    {facts:UInt64}, {hours:UInt64}, {allocations:UInt64}, {names:Array(String)}, {parts:Array(UInt64)}, {fingerprints:Array(UInt64)},
    groupUniqArray(cityHash64(toString(cluster), allocation_id))
FROM {claims:Identifier}
WHERE (end_ms > {horizon_ms:Int64} AND NOT ends_before_it_starts AND claim NOT IN (SELECT claim FROM {unsettled:Identifier} WHERE NOT again))
    OR claim IN (SELECT claim FROM {unsettled:Identifier} WHERE again)
