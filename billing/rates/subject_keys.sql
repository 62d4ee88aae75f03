if({by_queue:UInt8}, toString($of.queue), '') AS ${prefix}queue,
toUInt16(if(isNull($of.priority) OR empty({priority_bounds:Array(Int64)}), 0, 1 + arrayCount(x -> x <= $of.priority, {priority_bounds:Array(Int64)}))) AS priority_level,
toUInt8(if({by_preemptible:UInt8}, $of.preemptible, false)) AS ${prefix}preemptible
