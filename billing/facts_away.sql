-- Takes the tables of facts out of a scratch store, and what is kept of them, so that views can stand in their place.
DROP VIEW stream_hours_of_samples;
DROP VIEW touched_hours_of_samples;
DROP VIEW recent_batches_of_ingest;
DROP TABLE samples;
DROP TABLE events;
DROP TABLE devices;
DROP TABLE touched_hours;
DROP TABLE ingest_batches;
DROP TABLE recent_batches;
