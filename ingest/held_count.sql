-- How many rows of a sender wait.   Parameter: sender String.
SELECT count() AS rows FROM held_rows FINAL WHERE sender = {sender:String} AND state = 'held'
