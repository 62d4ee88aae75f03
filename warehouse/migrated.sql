-- Records migrations as applied.   Params:  numbers, names: theirs, in the same order.
INSERT INTO schema_migrations (number, name)
SELECT one.1, one.2
FROM (SELECT arrayJoin(arrayZip({numbers:Array(UInt32)}, {names:Array(String)})) AS one)
