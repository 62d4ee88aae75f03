-- One row: a stream and hour whose samples must be read, because its hourly sums of power and memory are not enough; and the hour
-- after it, whose first sample may reach back.
INSERT INTO {doubted:Identifier}
SELECT stream, toUInt32(arrayJoin([hour, hour + 1])) AS hour
FROM (SELECT DISTINCT stream, hour FROM {measured:Identifier} WHERE is_unclear)
