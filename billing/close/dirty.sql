-- One row: an hour (since the epoch) that a portion computes.
CREATE TABLE {dirty:Identifier} (hour UInt32) ENGINE = Memory AS
SELECT arrayJoin({hours:Array(UInt32)}) AS hour
