-- The settled claims by payer: each is cut where the tenant mapping changes who pays for it.
-- Shape:   source_claim = the claim that it is a piece of; the first piece keeps its name, so that nothing changes where
--          nothing is cut. reported_tenant, reported_project = as the source reported. payer = hash of everything except
--          the device on which a claim's price depends (as in billing/rates/stage_prices.sql).
-- Params:  workload_patterns as in combinations.sql.   $$keys: billing/rates/subject_keys.sql.
CREATE TABLE {paid:Identifier} ENGINE = Memory AS
WITH
    reported AS
    (
        SELECT
            settled.* EXCEPT (claim, tenant, project, start_ms, end_ms, source_claim, reported_tenant, reported_project, cost_center, unmapped, payer),
            claim AS source_claim, tenant AS reported_tenant, project AS reported_project, start_ms AS source_start_ms, end_ms AS source_end_ms,
            cityHash64(
                toString(tenant), toString(project), toString(queue), toString(cluster), toString(source),
                arrayStringConcat(arrayMap(pattern -> toString(match(workload_id, pattern)), {workload_patterns:Array(String)}))) AS combination
        FROM {settled:Identifier} AS settled
    ),
    owned AS
    (
        SELECT combination, groupArray((from_ms, to_ms, to_tenant, to_project, cost_center, unmapped)) AS pieces
        FROM {owners:Identifier}
        GROUP BY combination
    )
SELECT
    reported.* EXCEPT (source_start_ms, source_end_ms, combination),
    greatest(source_start_ms, piece.1) AS start_ms,
    least(source_end_ms, piece.2) AS end_ms,
    if(start_ms = source_start_ms, source_claim, cityHash64(source_claim, start_ms)) AS claim,
    toLowCardinality(piece.3) AS tenant,
    toLowCardinality(piece.4) AS project,
    toLowCardinality(piece.5) AS cost_center,
    CAST(piece.6 AS Bool) AS unmapped,
    cityHash64(partition_profile, piece.3, $keys) AS payer
FROM reported
LEFT JOIN owned ON reported.combination = owned.combination
ARRAY JOIN if(
    empty(pieces),
    [(toInt64(0), {forever:Int64}, toString(reported_tenant), toString(reported_project), '', toUInt8(0))],
    pieces) AS piece
WHERE greatest(source_start_ms, piece.1) < least(source_end_ms, piece.2) OR (source_start_ms >= source_end_ms AND piece.1 <= source_start_ms AND source_start_ms < piece.2)
