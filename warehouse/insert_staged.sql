-- Writes a staged batch into a table.   $$table; $$columns: those of the batch; $$source: where it is (Store.staged).
INSERT INTO $table ($columns) SELECT $columns FROM $source
