-- Batches that closes of the last days read, besides older ones.
CREATE TABLE {lately:Identifier} (batch UInt64) ENGINE = Set SETTINGS persistent = 0
