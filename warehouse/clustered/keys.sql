-- One row: a key in a working table.   $$table: its parameter.
SELECT * FROM $table
