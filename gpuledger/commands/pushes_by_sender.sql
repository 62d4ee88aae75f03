-- One row: a sender of the last week (UTC days): its last push, and rows by what became of them. denied: pushes.
-- not_taken: points of pushed metrics that no row can be made of.
SELECT
    if(sender = '', '(unknown)', sender) AS sender,
    max(sender_days.last_at) AS last_push,
    sumIf(rows, outcome = 'stored') AS stored,
    sumIf(rows, outcome = 'held') AS held,
    sumIf(rows, outcome = 'out_of_place') AS out_of_place,
    sumIf(rows, outcome = 'quarantined') AS quarantined,
    sumIf(rows, outcome = 'refused') AS refused,
    sumIf(rows, outcome = 'not_taken') AS not_taken,
    sumIf(pushes, outcome = 'denied') AS denied,
    arrayStringConcat(arraySort(groupUniqArrayIf(reason, reason != '')), ', ') AS reasons
FROM sender_days
WHERE day > today() - 7
GROUP BY sender
ORDER BY sender
