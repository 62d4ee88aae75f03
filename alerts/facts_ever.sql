-- One row: of each kind of fact, whether there was any up to an instant, however long ago.
-- Params:  at.
SELECT
    (SELECT count() FROM (SELECT 1 FROM samples WHERE ts <= {at:DateTime64(3, 'UTC')} LIMIT 1)) AS samples,
    (SELECT count() FROM (SELECT 1 FROM events WHERE ts <= {at:DateTime64(3, 'UTC')} LIMIT 1)) AS events,
    (SELECT count() FROM (SELECT 1 FROM devices WHERE ts <= {at:DateTime64(3, 'UTC')} LIMIT 1)) AS devices,
    (SELECT count() FROM (SELECT 1 FROM service_levels WHERE ts <= {at:DateTime64(3, 'UTC')} LIMIT 1)) AS service_levels,
    (SELECT count() FROM (SELECT 1 FROM metrics WHERE ts <= {at:DateTime64(3, 'UTC')} LIMIT 1)) AS metrics,
    (SELECT count() FROM (SELECT 1 FROM findings WHERE ts <= {at:DateTime64(3, 'UTC')} LIMIT 1)) AS findings,
    (SELECT count() FROM (SELECT 1 FROM closed_hours WHERE hour < {at:DateTime64(3, 'UTC')} LIMIT 1)) AS ledger
