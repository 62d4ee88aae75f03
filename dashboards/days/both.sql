-- What ({days}) reads while sums hold for some days of a period and others of its hours are closed.
-- One row: a sum of a day ({summed}), or an entry of one of these hours ({other}).
SELECT * FROM ({summed})
UNION ALL
SELECT * FROM ({other})
