-- From schema 0030, of before the first release, to what the migrations from 0101 on make. They run after it, and make all
-- views anew. Each statement can be repeated: one that a kill cut short is run again with those before it.

-- Columns in the words of the glossary. What stands in a sorting key (told_otherwise) cannot be renamed, nor what a digest is
-- of (chained tables).
ALTER TABLE ledger_entries
    RENAME COLUMN IF EXISTS told_tenant TO reported_tenant,
    RENAME COLUMN IF EXISTS told_project TO reported_project;
ALTER TABLE allocations
    RENAME COLUMN IF EXISTS told_tenant TO reported_tenant,
    RENAME COLUMN IF EXISTS told_project TO reported_project;
ALTER TABLE alert_transitions RENAME COLUMN IF EXISTS quiet_since TO keep_firing_since;
ALTER TABLE interference_samples RENAME COLUMN IF EXISTS together TO utilization_sum;
DROP VIEW IF EXISTS told_events;

-- What tables and columns mean, in the words of the glossary.
ALTER TABLE samples
    COMMENT COLUMN IF EXISTS told_otherwise 'the batch, where its rows may have keys of rows reported before; else 0',
    MODIFY COMMENT 'One row: what a device, a partition or a workload on it did over (ts - interval_seconds, ts]. Units: in the names; ratios 0-1. Source: agents and exporters.';

ALTER TABLE events
    MODIFY COMMENT 'One row: a change in the lifecycle of an allocation, of one device where it names one. Source: schedulers and watchers.';

ALTER TABLE devices
    MODIFY COMMENT 'One row: a device as it is from ts on, until its next row. Source: agents, watchers and inventory files.';

ALTER TABLE service_levels
    MODIFY COMMENT 'One row: a metric of a service over (ts - interval_seconds, ts]. Units: in the metric''s name. Source: the exporters of inference servers.';

ALTER TABLE metrics
    MODIFY COMMENT 'One row: one further metric of a device, a partition or a workload on it over (ts - interval_seconds, ts], or why it has no value. Units: docs/telemetry.md. Source: agents and exporters.';

ALTER TABLE findings
    MODIFY COMMENT 'One row: what a collector found wrong: an XID, a lost GPU, a process without an allocation, a missing metric. Source: agents and exporters.';

ALTER TABLE ingest_batches
    MODIFY COMMENT 'One row: a batch that was written completely; one without a row is sent again with the same token. Source: ingest.';

ALTER TABLE quarantine
    MODIFY COMMENT 'One row: a row that could not be read or stored, with the reason and its text. Source: ingest.';

ALTER TABLE held_rows
    MODIFY COMMENT 'One row: a revision of a pushed row that waits for approval, or waited; the newest counts. Source: ingest; decisions: people.';

ALTER TABLE sender_days
    MODIFY COMMENT 'One row: what a sender pushed on a day (UTC) of one record type, and the outcome; rows of a key are summed. Source: ingest.';

ALTER TABLE touched_hours
    COMMENT COLUMN IF EXISTS first_ms 'how long after the hour began its first sample ends; 0: not reported',
    MODIFY COMMENT 'One row: a batch put samples that end in this hour. Units: ms. Source: the view touched_hours_of_samples, at ingest.';

ALTER TABLE stream_hours
    COMMENT COLUMN IF EXISTS powered 'samples that report power',
    COMMENT COLUMN IF EXISTS sized 'samples that report memory',
    MODIFY COMMENT 'One row: sums over the samples of one stream that end in one hour; rows of a key are summed. Units: in the columns'' comments. Source: the view stream_hours_of_samples, at ingest.';

ALTER TABLE pushed_points
    MODIFY COMMENT 'One row: one value of one pushed series at one instant; the same may come with several pushes. Source: remote write and OTLP.';

ALTER TABLE pushed_instants
    MODIFY COMMENT 'One row: a push has points of a target at an instant, or rows were made of them. Written after the points, it acknowledges them. Source: remote write and OTLP.';

ALTER TABLE pushed_memory
    MODIFY COMMENT 'One row: what is known of a target''s units, or of the devices that a sender''s exporters reported; the newest counts. Source: the assembly of pushed metrics.';

ALTER TABLE close_runs
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: a close that finished; its period, rate card, mapping and cut-off reproduce it. Chained. Source: close.';

ALTER TABLE close_batches
    MODIFY COMMENT 'One row: a close, and the batches that it was the first to read, beside those of the close that it follows. Source: close.';

ALTER TABLE closed_hours
    COMMENT COLUMN IF EXISTS checked_by 'the run that checked it, later than or equal to run',
    MODIFY COMMENT 'One row: from the run checked_by on, an hour''s entries are those of run; the newest counts. Source: close.';

ALTER TABLE ledger_entries
    COMMENT COLUMN IF EXISTS reported_tenant 'as the source reported it',
    COMMENT COLUMN IF EXISTS reported_project 'as the source reported it',
    COMMENT COLUMN IF EXISTS priority 'as the source reported it; null: not reported',
    MODIFY COMMENT 'One row: what an allocation held of a device in one hour at one share, price and tenant, or the platform''s own time on it (an empty allocation_id). Units: unit-milliseconds; prices per GPU-hour. Source: close. Read the view ledger.';

ALTER TABLE energy_entries
    MODIFY COMMENT 'One row: the energy and memory of an allocation on a device in one hour at one SKU, or the platform''s part (an empty allocation_id), where something was measured. Units: in the names. Source: close. Read the view energy.';

ALTER TABLE allocations
    MODIFY COMMENT 'One row: an allocation held units of a device during [start_at, end_at). Source: close, which rewrites the table.';

ALTER TABLE refused_claims
    MODIFY COMMENT 'One row: a claim or inventory row that the books refuse, and why. Source: close, which rewrites the table.';

ALTER TABLE ledger_days
    MODIFY COMMENT 'One row: the sum of the ledger''s entries of an allocation on a device, at one share and price, that begin in a day of a zone, or of the platform''s own time. Units: as in ledger_entries. Source: the ledger. In force are those of summed_days.';

ALTER TABLE summed_days
    MODIFY COMMENT 'One row: a day whose sums are complete; they hold while content is that of the hours in force. Source: the ledger.';

ALTER TABLE rate_cards
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: a rate card as applied; the newest is in force. Chained. Source: rates apply.';

ALTER TABLE tenant_mappings
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: a tenant mapping as applied; the newest is in force. Chained. Source: tenants apply.';

ALTER TABLE energy_settings
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: grid intensities, PUE and idle power as applied; the newest is in force. Chained. Source: energy intensity apply.';

ALTER TABLE budgets
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: a budgets file as applied; the newest is in force. Chained. Source: budget apply.';

ALTER TABLE parties
    MODIFY COMMENT 'One row: the seller''s and the buyers'' details as applied; the newest is in force. Chained. Source: invoice parties apply.';

ALTER TABLE invoices
    MODIFY COMMENT 'One row: an issued invoice or credit note, never changed. Units: total in the currency. Chained. Source: invoice issue and credit.';

ALTER TABLE voided_invoices
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: an issued invoice that is void; its number stays assigned. Chained. Source: invoice void.';

ALTER TABLE credits
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: an amount in a tenant''s favour (negative: against it) on the draft of a month; one that was wrong is reversed by another row. Units: the currency. Chained. Source: credits add, objectives.';

ALTER TABLE grants
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: a revision of an amount paid or given in advance, for what accrues during [starts_at, expires_at). What was drawn is read from the issued invoices. Units: the currency. Chained. Source: credits grant and revoke.';

ALTER TABLE audit
    COMMENT COLUMN IF EXISTS position 'in the chain, from 1; 0: of before it',
    COMMENT COLUMN IF EXISTS previous 'digest of the row before',
    COMMENT COLUMN IF EXISTS digest 'sha256 of previous and the content (docs/billing.md)',
    MODIFY COMMENT 'One row: somebody did something to prices, tenants, credits, invoices, access or held pushes. Chained. Source: whatever does it.';

ALTER TABLE chain_heads
    MODIFY COMMENT 'One row: how a chain begins (is_beginning), or its last row. Source: every append to a chained table.';

ALTER TABLE alert_transitions
    MODIFY COMMENT 'One row: from at on (time of the facts), an instance of a rule is in this state. Source: the evaluation of rules. Visible once alert_runs has its run: read the views alert_history and alerts.';

ALTER TABLE alert_runs
    MODIFY COMMENT 'One row: an evaluation that was written completely, until evaluated_until (time of the facts). Source: the evaluation of rules.';

ALTER TABLE alert_evidence
    MODIFY COMMENT 'One row: a firing alert as the last evaluation saw it. Source: the evaluation of rules.';

ALTER TABLE alert_deliveries
    MODIFY COMMENT 'One row: an attempt to notify a target of an alert. Clock time. Source: the delivery of notifications.';

ALTER TABLE alert_silences
    MODIFY COMMENT 'One row: a revision of a silence during [starts_at, ends_at); the newest counts. Clock time. Source: alerts silence add and end.';

ALTER TABLE slo_files
    MODIFY COMMENT 'One row: a file of objectives as applied; the newest is in force. Source: slo apply.';

ALTER TABLE slo_definitions
    MODIFY COMMENT 'One row: an objective of a file, as it is measured; cluster to service are regular expressions. Units: bound in seconds. Source: slo apply.';

ALTER TABLE slo_points
    MODIFY COMMENT 'One row: how much of a series was good, bad and missing within the five minutes that end at at. Units: the objective''s. Source: the measuring of objectives. Read the view slo_series.';

ALTER TABLE slo_hours
    MODIFY COMMENT 'One row: from this run on, the points of an hour are those of run; the newest counts. Source: the measuring of objectives.';

ALTER TABLE slo_measured
    MODIFY COMMENT 'One row: how far an objective has been measured, and from which facts; the newest run counts. Source: the measuring of objectives.';

ALTER TABLE interference_versions
    MODIFY COMMENT 'One row: from since on, an identity runs another version (an image, a model, a driver), and its baselines start anew. An empty identity: everything in the cluster; an empty cluster: everywhere. Source: interference version.';

ALTER TABLE interference_samples
    COMMENT COLUMN IF EXISTS service 'empty: it reports nothing of how well it does',
    COMMENT COLUMN IF EXISTS metric 'by which it is measured; empty: none is reported',
    COMMENT COLUMN IF EXISTS has_demand 'requests ran or waited, or it reported its progress',
    MODIFY COMMENT 'One row: a workload in one window, alone or beside others, compared with what it does alone. Units: in the names; ratios 0-1. Source: the measuring of interference. Read the view interference.';

ALTER TABLE interference_hours
    MODIFY COMMENT 'One row: from this run on, the samples of an hour are those of run; the newest counts. Source: the measuring of interference.';

ALTER TABLE interference_runs
    MODIFY COMMENT 'One row: a run that finished, which had the facts that arrived until facts_until and the hours closed by books_run. Source: the measuring of interference.';

ALTER TABLE interference_baselines
    MODIFY COMMENT 'One row: what an identity does alone on one kind of share at one load, from its windows of [since, until]; the newest run counts. Units: in the names; value in the metric''s. Source: the measuring of interference.';

ALTER TABLE turns
    MODIFY COMMENT 'One row: a sign of life of a process that waits for a turn or has it, or the turn''s end. The clock is the store''s. Source: the servers of one store.';
