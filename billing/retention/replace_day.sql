-- Puts what is kept of a day in the place of its samples, at once.
-- $$partition: of the day.   $$kept: the working table.
ALTER TABLE samples REPLACE PARTITION ID '$partition' FROM $kept
