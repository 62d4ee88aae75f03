-- One row: what one level of streams says of one holding.
-- Units:   covered_ms; used = ms x units x 1e9, at most cap units in use at any time.
CREATE TABLE {metered:Identifier} ENGINE = Memory AS
SELECT
    claim,
    start_ms,
    way.1 AS level,
    way.4 AS cap,
    sum(arraySum(lengths)) AS covered_ms,
    sum(arraySum(arrayMap((l, r) -> l * least(r * way.3, way.4 * 1000000000), lengths, span_rates))) AS used
FROM
(
    SELECT
        claim,
        start_ms,
        way,
        span_rates,
        arrayMap((s, e) -> toInt64(greatest(0, least(e, stop) - greatest(s, begin))), span_starts, span_ends) AS lengths
    FROM {spans:Identifier} AS spans
    INNER JOIN
    (
        SELECT claim, hour, start_ms, way, way.2 AS stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM {holdings:Identifier}
        ARRAY JOIN levels AS way
    ) AS wanted ON spans.stream = wanted.stream AND spans.hour = wanted.hour
)
GROUP BY claim, start_ms, way
HAVING covered_ms > 0
