-- Records that a batch was written completely.   hours: since the epoch, in which its samples end.
INSERT INTO ingest_batches (batch, record_type, source, sender, first_row, rows_read, rows_written, duplicates, quarantined, hours)
SELECT
    {batch:UInt64}, {record_type:String}, {source:String}, {sender:String}, {first_row:UInt64},
    {rows_read:UInt64}, {rows_written:UInt64}, {duplicates:UInt64}, {quarantined:UInt64},
    arrayMap(hour -> toDateTime(hour * 3600, 'UTC'), {hours:Array(UInt32)})
