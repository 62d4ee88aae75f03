-- Of a row, what its price depends on of the holder besides profile and tenant: a part of a SELECT, or arguments of a hash.
-- Shape:   priority_level = 0 where no priority was reported, else 1 + how many of the bounds it reaches.
-- $$of: whose rows.   $$prefix: of the names, if those of the columns are in use.
-- Params:  by_queue, by_preemptible = 1 if a price depends on it; priority_bounds, in order (see billing.rates.staging).
if({by_queue:UInt8}, toString($of.queue), '') AS ${prefix}queue,
toUInt16(if(isNull($of.priority) OR empty({priority_bounds:Array(Int64)}), 0, 1 + arrayCount(x -> x <= $of.priority, {priority_bounds:Array(Int64)}))) AS priority_level,
toUInt8(if({by_preemptible:UInt8}, $of.preemptible, false)) AS ${prefix}preemptible
