-- One row: a backup that is finished.   manifest: what `Backup` says, as JSON.
CREATE TABLE $name
(
    name     String,
    manifest String
)
ENGINE = Memory
