-- One row: a batch that a close reads: those before it did, or of `fresh`, but for some.
-- Params:  without: batches of `fresh` that are left out.
-- $$read: a condition on close_batches, of the closes that count, with its params (billing.close.facts).
INSERT INTO {batches:Identifier}
SELECT arrayJoin(batches) FROM close_batches WHERE $read
UNION ALL
SELECT batch FROM {fresh:Identifier} WHERE batch NOT IN {without:Array(UInt64)}
