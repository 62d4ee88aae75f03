-- One row: a kind of objective that the file in force has.
SELECT DISTINCT kind FROM slo_objectives
