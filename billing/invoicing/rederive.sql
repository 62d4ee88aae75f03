-- Gives a scratch store what people had decided when an invoice was computed, all facts, and the books of other months as
-- they are; which of the facts count is rederive_facts.sql's.
-- $$main: the store's database.   $$issued: the instant of issue.   $$hours: those closed anew.
-- Params:  number: the invoice's.
INSERT INTO rate_cards SELECT * FROM $main.rate_cards WHERE applied_at <= $issued;
INSERT INTO tenant_mappings SELECT * FROM $main.tenant_mappings WHERE applied_at <= $issued;
INSERT INTO energy_settings SELECT * FROM $main.energy_settings WHERE applied_at <= $issued;
INSERT INTO credits SELECT * FROM $main.credits WHERE at <= $issued;
INSERT INTO grants SELECT * FROM $main.grants WHERE at <= $issued;
INSERT INTO invoices SELECT * FROM $main.invoices
WHERE (issued_at, year, sequence) < (SELECT issued_at, year, sequence FROM $main.invoices WHERE number = {number:String} LIMIT 1);
INSERT INTO voided_invoices SELECT * FROM $main.voided_invoices WHERE at <= $issued;
INSERT INTO close_runs SELECT * FROM $main.close_runs;
INSERT INTO closed_hours SELECT * FROM $main.closed_hours WHERE NOT ($hours);
CREATE VIEW samples AS SELECT *, stream FROM $main.samples;
CREATE VIEW events AS SELECT * FROM $main.events;
CREATE VIEW devices AS SELECT * FROM $main.devices;
CREATE VIEW touched_hours AS SELECT * FROM $main.touched_hours;
DROP VIEW ledger;
CREATE VIEW ledger AS
SELECT * FROM $main.ledger WHERE NOT ($hours)
UNION ALL
SELECT * FROM ledger_entries WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours WHERE $hours GROUP BY hour);
