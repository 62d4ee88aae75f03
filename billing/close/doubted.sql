-- One row: a stream and hour whose samples must be read, because its hourly sums are not enough, or other streams measure
-- the same time.
INSERT INTO {doubted:Identifier}
SELECT DISTINCT way.2 AS stream, hour
FROM {holdings:Identifier}
ARRAY JOIN ways AS way
WHERE (claim, start_ms) IN (SELECT claim, start_ms FROM {metered:Identifier} WHERE levels != 1)
