-- One row: how many claims the books refused, and how many records could not be read.
SELECT
    (SELECT count() FROM refused_claims) AS refused,
    (SELECT count() FROM quarantine FINAL) AS quarantined
