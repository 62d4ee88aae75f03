-- A condition on touched_hours: the hours that a close examines, and those after them, whose samples may reach into them.
-- Params:  firsts, nexts: the hours that it examines (since the epoch), in runs [first, next).
touched_hours.hour IN
(
    SELECT toDateTime(arrayJoin(arrayFlatten(arrayMap((first, next) -> range(first, next + 1), {firsts:Array(UInt32)}, {nexts:Array(UInt32)}))) * 3600, 'UTC')
)
