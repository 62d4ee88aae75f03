-- Batches that closes of the last days read, besides older ones.
-- $$engine: as in stage_batches.sql.
CREATE TABLE {recently_read:Identifier} (batch UInt64) ENGINE = $engine
