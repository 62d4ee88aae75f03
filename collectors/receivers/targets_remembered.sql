-- One row: a sender, and of how many targets something is remembered.   Params:  senders.
SELECT sender, uniqExact(kind, about) AS many
FROM pushed_memory
WHERE sender IN {senders:Array(String)}
GROUP BY sender
