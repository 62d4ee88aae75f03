-- The tables of runs.py (SQLite). Times are ISO 8601, to the second; submitted: '' where it is not known.

-- One row: a run whose end was delivered, as it was first reported.
CREATE TABLE IF NOT EXISTS ends (
    job TEXT, submitted TEXT, started TEXT, ended TEXT, PRIMARY KEY (job, submitted, started)
) WITHOUT ROWID;

-- One row: a recent start. event: the row that said so, in JSON.
CREATE TABLE IF NOT EXISTS starts (
    job TEXT, allocation TEXT, started TEXT, event TEXT, PRIMARY KEY (job, allocation, started)
) WITHOUT ROWID;
