-- One row: a batch that a close read which named its batches since {since_ms:Int64}.
-- $$read: a condition on close_batches, of the closes that count, with its params (billing.close.facts).
INSERT INTO {recently_read:Identifier}
SELECT arrayJoin(batches) AS batch
FROM close_batches
WHERE $read AND run IN (SELECT run FROM close_named WHERE named_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC'))
