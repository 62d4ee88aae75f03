-- Removes a day of samples of which nothing is kept.
-- $$samples: the table with the rows.   $$partition: of the day.
ALTER TABLE $samples DROP PARTITION ID '$partition'
    SETTINGS alter_sync = 2
