-- One row: an application of a rate card, the oldest first.   rules: how many prices it has.
SELECT version, applied_at, author, reason, toUInt32(JSONLength(card, 'rates')) AS rules
FROM rate_cards FINAL
ORDER BY sequence
