-- From this run on, the samples of the hours of [since, until) are those of `run`.
-- Params:  run; since, until.
INSERT INTO interference_hours (hour, run)
SELECT
    toDateTime(arrayJoin(range(
        toUInt32(intDiv(toUnixTimestamp({since:DateTime64(3, 'UTC')}), 3600)),
        toUInt32(intDiv(toUnixTimestamp64Milli({until:DateTime64(3, 'UTC')}) + 3599999, 3600000)))) * 3600, 'UTC') AS hour,
    {run:UInt64} AS run
