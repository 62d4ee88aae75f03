-- Shows a scratch store the facts of the books, with some more rows or without, and the books as they were closed: a
-- close of it computes the hours that the rows change, and no others. What people decided is there, too.
-- $$main: the store's database.   $$more: the database that holds the rows, which may hold none.
CREATE VIEW ingest_batches AS
SELECT batch FROM $more.batches_before UNION ALL SELECT batch FROM $more.ingest_batches;
CREATE VIEW samples AS SELECT *, stream FROM $main.samples UNION ALL SELECT *, stream FROM $more.samples;
CREATE VIEW events AS SELECT * FROM $main.events UNION ALL SELECT * FROM $more.events;
CREATE VIEW devices AS SELECT * FROM $main.devices UNION ALL SELECT * FROM $more.devices;
CREATE VIEW touched_hours AS SELECT * FROM $main.touched_hours UNION ALL SELECT * FROM $more.touched_hours;
INSERT INTO rate_cards SELECT * FROM $main.rate_cards;
INSERT INTO tenant_mappings SELECT * FROM $main.tenant_mappings;
INSERT INTO energy_settings SELECT * FROM $main.energy_settings;
INSERT INTO credits SELECT * FROM $main.credits;
INSERT INTO invoices SELECT * FROM $main.invoices;
INSERT INTO voided_invoices SELECT * FROM $main.voided_invoices;
INSERT INTO close_runs SELECT * FROM $main.close_runs;
INSERT INTO closed_hours SELECT * FROM $main.closed_hours;
DROP VIEW energy;
DROP VIEW ledger;
CREATE VIEW ledger AS
SELECT * FROM (SELECT * FROM $main.ledger_entries UNION ALL SELECT * FROM ledger_entries)
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);
CREATE VIEW energy AS
SELECT * FROM (SELECT * FROM $main.energy_entries UNION ALL SELECT * FROM energy_entries)
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);
