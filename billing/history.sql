-- One row: an action of a person, or all that a sender pushed on a day, as one entry; the oldest first, also within one millisecond.
-- Parameters: action (a kind, or the whole name), object String; empty: any.
SELECT at, actor, action, object, reason, inputs
FROM
(
    SELECT at, actor, toString(action) AS action, object, reason, inputs, position FROM audit FINAL
    UNION ALL
    SELECT
        max(last_at) AS at,
        concat('sender ', if(sender = '', '(unknown)', sender)) AS actor,
        'push.day' AS action,
        toString(day) AS object,
        '' AS reason,
        toJSONString(mapFromArrays(groupArray(what), groupArray(counted))) AS inputs,
        toUInt64(0) AS position
    FROM
    (
        SELECT day, sender, concat(outcome, ' ', record_type, if(reason = '', '', concat(' (', reason, ')'))) AS what,
            if(outcome = 'denied', sum(pushes), sum(rows)) AS counted, max(sender_days.last_at) AS last_at
        FROM sender_days
        GROUP BY day, sender, what, outcome
    )
    GROUP BY day, sender
)
WHERE ({action:String} = '' OR action = {action:String} OR startsWith(action, concat({action:String}, '.')))
    AND ({object:String} = '' OR object = {object:String})
ORDER BY at, position, action, object
