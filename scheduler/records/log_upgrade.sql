-- Turns a log of format 1 into one of $$format.
BEGIN IMMEDIATE;
ALTER TABLE told RENAME TO delivered;
PRAGMA user_version = $format;
COMMIT;
