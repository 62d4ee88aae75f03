-- One row: a batch of what claims and states are made from: all devices, the events of `alive`, and samples of the last
-- hours, which say who is silent.
-- Params:  silence_ms: how long before the newest sample somebody is silent.
SELECT batch FROM devices
UNION ALL
SELECT batch FROM {events_of_alive:Identifier}
UNION ALL
SELECT batch
FROM touched_hours
WHERE hour >= (SELECT toStartOfHour(max(ts)) - INTERVAL 1 HOUR FROM samples) - toIntervalSecond(intDiv({silence_ms:Int64}, 1000))
