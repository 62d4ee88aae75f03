-- The settled claims, those with a lost end cut at their last sign of life. A device that was assumed remains so.
-- Params:  why = what the books say of such an end.
CREATE TABLE {ended:Identifier} ENGINE = Memory AS
WITH {why:String} AS why
SELECT
    settled.* EXCEPT (end_ms, estimated),
    if(lost.last_ms > 0, lost.last_ms, settled.end_ms) AS end_ms,
    multiIf(lost.last_ms = 0, settled.estimated, settled.estimated = '', why, concat(settled.estimated, '; ', why)) AS estimated
FROM {settled:Identifier} AS settled
LEFT JOIN {lost:Identifier} AS lost ON settled.claim = lost.claim
