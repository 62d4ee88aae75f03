-- One row: a batch of samples that touches the hours which a close examines.   $$touching: see touching.sql.
SELECT batch FROM touched_hours WHERE $touching
