-- What ({ledger}) reads as ({source}) for the closed hours of a period that no sum covers.
-- One row: an entry of the ledger, as in dashboards/hours.sql.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String (IANA name); summed_days, other_hours Array(UInt32),
--             in Unix seconds (Sums.params)
SELECT *, allocation_id != '' AS is_held
FROM ledger
WHERE charge_period_start >= {start:DateTime64(3,'UTC')} AND charge_period_start < {end:DateTime64(3,'UTC')}
    AND hour IN {other_hours:Array(UInt32)}
    AND toDateTime(dateTrunc('day', charge_period_start, {zone:String}), 'UTC') NOT IN {summed_days:Array(UInt32)}
