-- Samples go by `gpuledger retention` alone, which notes what it removes and keeps what issued invoices rest on: no TTL.
-- A TTL that is not there cannot be removed, so one is set first: then the statements can be repeated.

ALTER TABLE samples MODIFY TTL ingested_on + INTERVAL 400 DAY DELETE SETTINGS materialize_ttl_after_modify = 0;

ALTER TABLE samples REMOVE TTL;
