-- Params:  table: ledger_entries or energy_entries.   written: hours and closes, as in superseded.sql.
ALTER TABLE {table:Identifier}
    DELETE WHERE concat(toString(toUnixTimestamp(hour)), '/', toString(run)) IN {written:Array(String)}
    SETTINGS mutations_sync = 2
