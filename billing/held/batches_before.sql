-- The batches that are acknowledged now.
-- $$main: the store's database.
CREATE TABLE batches_before ENGINE = Memory AS SELECT batch FROM $main.ingest_batches
