-- What ({days}) reads while sums hold for some days of a period and others of its hours are closed.
-- One row: a sum of a day ({summed}), or an entry of one of these hours ({other}). Sums know no partitions and estimates.
SELECT * FROM ({summed})
UNION ALL
SELECT * EXCEPT (partition_id, estimated) FROM ({other})
