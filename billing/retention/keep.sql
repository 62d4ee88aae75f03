-- How long the engine keeps rows of a table, counted from arrival.
-- $$table, $$days.
ALTER TABLE $table MODIFY TTL ingested_on + INTERVAL $days DAY DELETE
