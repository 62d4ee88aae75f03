-- A condition on ingest_batches: those that a close named, with those before it.
-- $$main: the store's database.   $$last, $$others: the closes that count (billing.close.facts.batches_read).
batch IN (SELECT arrayJoin(batches) FROM $main.close_batches WHERE run <= $last AND run NOT IN ($others))
