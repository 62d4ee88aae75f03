-- One row: how the continuation of a session after a month can change its charge within the month: minimum_ms: shorter
-- sessions are charged as this long; by_length = 1 if a discount depends on the length of a session.
-- Traps:   a stored rate card leaves out default values, and a minimum of 60 s is one.
SELECT
    1000 * multiIf(
        empty(card), 0,
        NOT JSONHas(card, 'minimum_seconds'), 60,
        JSONType(card, 'minimum_seconds') = 'Array',
            arrayMax(arrayMap(one -> toInt64(JSONExtractUInt(one, 'seconds')), JSONExtractArrayRaw(card, 'minimum_seconds'))),
        toInt64(JSONExtractUInt(card, 'minimum_seconds'))) AS minimum_ms,
    toUInt8(arrayExists(one -> JSONExtractString(one, 'measure') = 'hours', JSONExtractArrayRaw(card, 'discounts'))) AS by_length
FROM (SELECT argMax(card, (sequence, applied_at)) AS card FROM rate_cards)
