-- Shows a scratch store the batches that a close read; a close of it reads their facts, and no others.
-- $$main: the store's database.   $$which: which batches.
CREATE OR REPLACE VIEW ingest_batches AS SELECT * FROM $main.ingest_batches WHERE $which;
TRUNCATE TABLE close_batches;
