-- Marks hours as complete.   Parameters: hours Array(UInt32), in Unix seconds, inputs Array(UInt64), of each
INSERT INTO device_hours (hour, inputs, cluster, device_id)
SELECT toDateTime(one.1, 'UTC'), one.2, '', ''
FROM (SELECT arrayJoin(arrayZip({hours:Array(UInt32)}, {inputs:Array(UInt64)})) AS one)
