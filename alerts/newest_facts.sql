-- One row: the newest time of each kind of fact up to an instant; null: there is none.
-- Shape:   one row. ledger: the end of the last closed hour.
-- Params:  at. Facts that are older than {days} days before it count as none.
SELECT
    (SELECT maxOrNull(ts) FROM samples WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32})) AS samples,
    (SELECT maxOrNull(ts) FROM events WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32})) AS events,
    (SELECT maxOrNull(ts) FROM devices WHERE ts <= {at:DateTime64(3, 'UTC')}) AS devices,
    (SELECT maxOrNull(ts) FROM service_levels WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32})) AS service_levels,
    (SELECT maxOrNull(ts) FROM metrics WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32})) AS metrics,
    (SELECT maxOrNull(ts) FROM findings WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32})) AS findings,
    (SELECT toDateTime64(maxOrNull(hour), 3, 'UTC') + INTERVAL 1 HOUR FROM closed_hours WHERE hour < {at:DateTime64(3, 'UTC')}) AS ledger
