-- Shows a scratch store the facts as they were when an invoice was computed, and the books of other months as they are.
-- $$main: the store's database.   $$cutoff, $$issued: instants of ingest and of issue.   $$hours: those computed again; they begin at $$start.
DROP VIEW stream_hours_of_samples;
DROP VIEW touched_hours_of_samples;
DROP TABLE samples;
DROP TABLE events;
DROP TABLE devices;
DROP TABLE touched_hours;
DROP TABLE ingest_batches;
CREATE VIEW ingest_batches AS SELECT * FROM $main.ingest_batches WHERE ingested_at <= $cutoff;
CREATE VIEW samples AS SELECT *, stream FROM $main.samples WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
CREATE VIEW events AS SELECT * FROM $main.events WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
CREATE VIEW devices AS SELECT * FROM $main.devices WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
CREATE VIEW touched_hours AS SELECT * FROM $main.touched_hours WHERE batch IN (SELECT batch FROM $main.ingest_batches WHERE ingested_at <= $cutoff);
INSERT INTO rate_cards SELECT * FROM $main.rate_cards WHERE applied_at <= $issued;
INSERT INTO tenant_mappings SELECT * FROM $main.tenant_mappings WHERE applied_at <= $issued;
INSERT INTO energy_settings SELECT * FROM $main.energy_settings WHERE applied_at <= $issued;
INSERT INTO credits SELECT * FROM $main.credits WHERE at <= $issued;
INSERT INTO grants SELECT * FROM $main.grants WHERE at <= $issued;
INSERT INTO invoices SELECT * FROM $main.invoices WHERE issued_at <= $issued AND period_start < $start;
INSERT INTO voided_invoices SELECT * FROM $main.voided_invoices WHERE at < $issued;
INSERT INTO close_runs SELECT * FROM $main.close_runs;
INSERT INTO closed_hours SELECT * FROM $main.closed_hours WHERE NOT ($hours);
DROP VIEW ledger;
CREATE VIEW ledger AS
SELECT * FROM $main.ledger WHERE NOT ($hours)
UNION ALL
SELECT * FROM ledger_entries WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours WHERE $hours GROUP BY hour);
