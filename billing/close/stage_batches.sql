-- The batches that a close reads.
-- $$engine: a Set, or a Memory table where shards are sent it (Store.set_engine).
CREATE TABLE {batches:Identifier} (batch UInt64) ENGINE = $engine
