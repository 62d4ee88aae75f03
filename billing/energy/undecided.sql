-- Marks as unclear what may have power at the time of another stream of its segment, or only after it: where the first sample
-- with power begins is not known, and it matters (see powers.sql).
ALTER TABLE {measured:Identifier}
UPDATE is_unclear = true
WHERE of_power AND power_ms > 0 AND NOT is_since_known AND (state_id, start_ms) IN
(
    SELECT state_id, start_ms
    FROM {measured:Identifier}
    WHERE of_power AND power_ms > 0
    GROUP BY state_id, start_ms
    HAVING min(level) != max(level) AND max(begins) < min(ends) AND NOT min(is_since_known)
)
