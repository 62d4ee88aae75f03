-- Puts what is kept of a day in the place of its samples, at once.
-- On all replicas before it is done: of what is kept no other copy is left.
-- $$samples: the table with the rows.   $$partition: of the day.   $$kept: the working table.   $$besides: settings, of shards of
-- which nothing may be kept.
ALTER TABLE $samples REPLACE PARTITION ID '$partition' FROM $kept
    SETTINGS alter_sync = 2$besides
