-- One row: whose prices the rate card in force has for an example; '' where they are one's own; none before the first was
-- applied.
SELECT JSONExtractString(card, 'example') AS example
FROM rate_cards
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
