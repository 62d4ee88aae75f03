-- One row: a silence in its newest revision that ends after an instant.
-- Params:  after.
SELECT id, matchers, starts_at, ends_at, author, reason, created_at, revision
FROM (SELECT * FROM alert_silences ORDER BY id, revision DESC LIMIT 1 BY id)
WHERE ends_at > {after:DateTime64(3, 'UTC')}
ORDER BY starts_at, id
