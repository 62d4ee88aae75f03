-- One row: an event, from any batch, of an allocation that the close examines.
CREATE TABLE {events_of_alive:Identifier} ENGINE = MergeTree ORDER BY tuple() AS
SELECT *
FROM events
WHERE allocation_hash IN {alive:Identifier}
