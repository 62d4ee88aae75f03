-- The tables of the scheduler's log (SQLite). at: seconds since the epoch.   $$format: the file's.
BEGIN IMMEDIATE;

-- One row: something that happened. job_id: '' where it concerns several jobs, or none.   body: JSON.
CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, job_id TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX entries_of_job ON entries (job_id, sequence) WHERE job_id != '';
CREATE INDEX configurations ON entries (sequence) WHERE kind = 'configured';

-- One row: a job that a plan concerns, and the plan's entry.
CREATE TABLE jobs_of_plan (job_id TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (job_id, sequence)) STRICT;

-- One row: a reader, and the last entry that was delivered to it.
CREATE TABLE delivered (reader TEXT PRIMARY KEY, sequence INTEGER NOT NULL) STRICT;
PRAGMA user_version = $format;
COMMIT;
