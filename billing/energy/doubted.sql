-- One row: a stream and hour whose samples must be read, because its hourly sums of power and memory are not enough; or the hour
-- after it, if its first sample reaches back.
INSERT INTO {doubted:Identifier}
WITH
    unclear AS
    (
        SELECT stream, hour FROM {measured:Identifier} WHERE is_unclear
    )
SELECT DISTINCT stream, hour FROM unclear
UNION ALL
SELECT stream, hour FROM {speaking:Identifier} WHERE earliest < 0 AND (stream, hour - 1) IN unclear
