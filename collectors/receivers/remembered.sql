-- One row: the stored state of a sender's target or cluster.
SELECT argMax(memory, remembered_at) AS memory
FROM pushed_memory
WHERE sender = {sender:String} AND kind = {kind:String} AND about = {about:String}
GROUP BY about
