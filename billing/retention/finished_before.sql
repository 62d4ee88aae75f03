-- One row: the last close that had finished by an instant; 0: none.
-- Params:  at.
SELECT max(run) AS last FROM close_runs WHERE finished_at <= {at:DateTime64(3, 'UTC')}
