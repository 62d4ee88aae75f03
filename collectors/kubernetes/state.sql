-- The tables of state.py (SQLite).

-- One row: something about the watch as a whole: the file's format, the cluster, positions.
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- One row: an object of the cluster that the watch knows. value: in JSON.
CREATE TABLE IF NOT EXISTS objects (
    kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
