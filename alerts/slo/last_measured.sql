-- One row: an objective in force, with how far it was measured and what that had seen; null: it never was.
SELECT
    o.definition AS definition,
    any(o.kind) AS kind,
    any(o.books) AS books,
    max(o.window_seconds) AS window_seconds,
    anyOrNull(m.asked) AS asked_until,
    anyOrNull(m.facts) AS facts_until,
    anyOrNull(m.books_run) AS books_run
FROM slo_objectives AS o
LEFT JOIN
(
    SELECT
        definition,
        toNullable(argMax(until, run)) AS asked,
        toNullable(argMax(facts_until, run)) AS facts,
        toNullable(argMax(books_run, run)) AS books_run
    FROM slo_measured
    GROUP BY definition
) AS m ON o.definition = m.definition
GROUP BY definition
ORDER BY definition
