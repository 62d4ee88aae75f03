-- One row: how much of a batch is in the store.
-- rows: of this batch, in the table.   touched: hours that the materialized view of samples recorded for it.
-- $$table.   Parameters: batch UInt64, first_at and last_at DateTime64(3): its first and last instant.
SELECT
    (
        SELECT count()
        FROM $table
        WHERE batch = {batch:UInt64}
            AND ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
    ) AS rows,
    (
        SELECT count()
        FROM touched_hours
        WHERE batch = {batch:UInt64}
            AND hour >= {first_at:DateTime64(3, 'UTC')} - INTERVAL 2 HOUR AND hour <= {last_at:DateTime64(3, 'UTC')}
    ) AS touched
