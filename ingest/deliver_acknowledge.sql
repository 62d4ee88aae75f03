-- Records that a batch was written completely: a close reads acknowledged batches only.
-- Parameters: batch UInt64, record, source String, rows UInt64.
INSERT INTO ingest_batches (batch, record_type, source, first_row, rows_read, rows_written)
SELECT {batch:UInt64}, {record:String}, {source:String}, 1, {rows:UInt64}, {rows:UInt64}
