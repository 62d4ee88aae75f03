-- One row: a closed hour whose entries, or the energy's, are not those that its close wrote; by their fingerprint.
-- Params:  start, end = [start, end); most = rows.   $$ledger_content, $$energy_content = the close's own statements.
SELECT closed.hour AS at, written AS fingerprint, ledger_content + energy_content AS found
FROM
(
    SELECT hour, argMax(closed_hours.content, checked_by) AS written
    FROM closed_hours
    WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
    GROUP BY hour
) AS closed
LEFT JOIN (SELECT toDateTime(hour * 3600, 'UTC') AS hour, content AS ledger_content FROM ($ledger_content)) AS entries ON closed.hour = entries.hour
LEFT JOIN (SELECT toDateTime(hour * 3600, 'UTC') AS hour, content AS energy_content FROM ($energy_content)) AS energies ON closed.hour = energies.hour
WHERE found != fingerprint
ORDER BY at
LIMIT {most:UInt32}
