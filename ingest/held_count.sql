-- One row: how many rows of a sender are held.   Parameter: sender String.
SELECT count() AS rows FROM held_rows FINAL WHERE sender = {sender:String} AND state = 'held'
