-- One row: whether what a session does after a month may change what is charged for it in that month: minimum_ms, below
-- which a session is charged as that long; by_length = 1 where a discount goes by how long one lasted.
-- Traps:   a card is kept without what is as usual, and a minimum of 60 s is.
SELECT
    1000 * multiIf(
        empty(card), 0,
        NOT JSONHas(card, 'minimum_seconds'), 60,
        JSONType(card, 'minimum_seconds') = 'Array',
            arrayMax(arrayMap(one -> toInt64(JSONExtractUInt(one, 'seconds')), JSONExtractArrayRaw(card, 'minimum_seconds'))),
        toInt64(JSONExtractUInt(card, 'minimum_seconds'))) AS minimum_ms,
    toUInt8(arrayExists(one -> JSONExtractString(one, 'measure') = 'hours', JSONExtractArrayRaw(card, 'discounts'))) AS by_length
FROM (SELECT argMax(card, (sequence, applied_at)) AS card FROM rate_cards)
