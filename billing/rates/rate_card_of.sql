-- One row: the rate card of a version, as it was last applied; none if it never was.
-- Params:  version.
SELECT version, sequence, applied_at, author, reason, card
FROM rate_cards
WHERE version = {version:String}
ORDER BY sequence DESC
LIMIT 1
