-- Batches that closes of the last days read, besides older ones.
CREATE TABLE {recently_read:Identifier} (batch UInt64) ENGINE = Set SETTINGS persistent = 0
