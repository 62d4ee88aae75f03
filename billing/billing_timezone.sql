-- One row: the billing time zone of the rate card in force; '' where it is the default; none before the first was applied.
SELECT JSONExtractString(card, 'timezone') AS timezone
FROM rate_cards
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
