-- Writes lines that an agent found invalid into the quarantine. One row: a line.
-- Parameters: record String, source String (cluster/node), batch UInt64.
INSERT INTO quarantine (record_type, source, row, reason, detail, raw, batch)
SELECT {record:String}, {source:String}, rowNumberInAllBlocks() + 1, 'refused_by_agent', 'see the agent''s log', line, {batch:UInt64}
FROM input('line String')
FORMAT LineAsString
