-- One row: how many records of each fact the store holds; tells an empty store from one that was never closed.
SELECT
    (SELECT count() FROM devices) AS devices,
    (SELECT count() FROM events) AS events,
    (SELECT count() FROM samples) AS samples,
    (SELECT count() FROM rate_cards) AS rate_cards
