-- One row: whether it is known of each close when it named its batches, if that was since {since_ms:Int64}.
SELECT
    (SELECT count() FROM close_batches WHERE run NOT IN (SELECT run FROM close_named)) = 0
    OR (SELECT count() FROM close_named WHERE named_at < fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')) > 0 AS are_dated
