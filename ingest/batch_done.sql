-- One row: the counts of a batch that was written completely.
-- Parameters: record_type String, batch UInt64.
SELECT rows_written, duplicates FROM ingest_batches WHERE record_type = {record_type:String} AND batch = {batch:UInt64} LIMIT 1
