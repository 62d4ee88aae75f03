-- One row: an event of an allocation that a close looks at, of whatever batch.
CREATE TABLE {events_of_alive:Identifier} ENGINE = MergeTree ORDER BY tuple() AS
SELECT *
FROM events
WHERE allocation_hash IN {alive:Identifier}
