-- One row: the newest facts that have come after an instant and up to another of the clock; NULL: none.
-- Params:  clock; since; sampled_since, for samples, of which a day has millions.
SELECT
    (SELECT maxOrNull(ts) FROM samples WHERE ts > {sampled_since:DateTime64(3,'UTC')} AND ts <= {clock:DateTime64(3,'UTC')}) AS samples,
    (SELECT maxOrNull(ts) FROM events WHERE ts > {since:DateTime64(3,'UTC')} AND ts <= {clock:DateTime64(3,'UTC')}) AS events,
    (SELECT maxOrNull(ts) FROM devices WHERE ts > {since:DateTime64(3,'UTC')} AND ts <= {clock:DateTime64(3,'UTC')}) AS devices
