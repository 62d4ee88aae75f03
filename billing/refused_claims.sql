-- One row: a reason for which the books refuse claims or device rows, how many, and one of them in words.
SELECT reason, count() AS claims, min(detail) AS example FROM refused_claims GROUP BY reason ORDER BY claims DESC, reason
