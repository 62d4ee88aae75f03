-- Shows a scratch store the facts as they were at an instant.
-- $$main: the store's database.   $$cutoff: an instant of ingest.
CREATE OR REPLACE VIEW ingest_batches AS SELECT * FROM $main.ingest_batches WHERE ingested_at <= $cutoff;
CREATE OR REPLACE VIEW samples AS SELECT *, stream FROM $main.samples WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
CREATE OR REPLACE VIEW events AS SELECT * FROM $main.events WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
CREATE OR REPLACE VIEW devices AS SELECT * FROM $main.devices WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
CREATE OR REPLACE VIEW touched_hours AS SELECT * FROM $main.touched_hours WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
