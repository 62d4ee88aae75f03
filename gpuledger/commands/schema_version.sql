-- One row: the newest migration that was applied.
SELECT max(number) AS version FROM schema_migrations
