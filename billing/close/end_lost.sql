-- The settled claims, those with a lost end cut at their last sign of life.
CREATE TABLE {ended:Identifier} ENGINE = Memory AS
SELECT
    settled.* EXCEPT (end_ms, estimated),
    if(lost.last_ms > 0, lost.last_ms, settled.end_ms) AS end_ms,
    if(lost.last_ms > 0, 'end lost: last sign of life of a silent workload', settled.estimated) AS estimated
FROM {settled:Identifier} AS settled
LEFT JOIN {lost:Identifier} AS lost ON settled.claim = lost.claim
