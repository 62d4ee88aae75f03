-- Batches that no close has read.   hours: in which their samples end; empty: not known.   is_of_samples: it may be.
CREATE TABLE {fresh:Identifier} (batch UInt64, is_of_samples Bool, hours Array(DateTime('UTC'))) ENGINE = Memory
