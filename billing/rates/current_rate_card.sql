-- One row: the rate card in force; none before the first was applied.
SELECT version, sequence, applied_at, author, reason, card
FROM rate_cards
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
