-- A period of entries is found by what is asked for, when their charges begin, and read without the others: no statement
-- need say beside it which hours that can be.
ALTER TABLE ledger_entries
    ADD INDEX IF NOT EXISTS charge_periods charge_period_start TYPE minmax GRANULARITY 1;

ALTER TABLE ledger_entries MATERIALIZE INDEX charge_periods;

ALTER TABLE energy_entries
    ADD INDEX IF NOT EXISTS charge_periods charge_period_start TYPE minmax GRANULARITY 1;

ALTER TABLE energy_entries MATERIALIZE INDEX charge_periods;
