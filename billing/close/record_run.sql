-- Notes a finished close: with its period, rate card, tenants' mapping and ingest cut-off it can be computed again.
INSERT INTO close_runs (run, started_at, finished_at, closed_until, ingest_cutoff, rate_card, tenant_mapping, hours_checked, hours_changed, software)
SELECT {run:UInt64}, {started:DateTime64(3, 'UTC')}, {finished:DateTime64(3, 'UTC')}, {until:DateTime64(3, 'UTC')},
    {started:DateTime64(3, 'UTC')}, {card:String}, {mapping:String}, {checked:UInt64}, {changed:UInt64}, {software:String}
