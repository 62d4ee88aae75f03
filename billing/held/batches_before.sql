-- The batches that are acknowledged now, without pushed ones that no close has read: the next close looks at those first,
-- and a row that waits may have come again with one of them.
-- $$main: the store's database.
CREATE TABLE batches_before ENGINE = Memory AS
SELECT batch
FROM $main.ingest_batches
WHERE NOT startsWith(source, 'push:') OR batch IN (SELECT arrayJoin(batches) FROM $main.close_batches)
