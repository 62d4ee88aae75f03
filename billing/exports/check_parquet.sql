-- A Parquet file of FOCUS as texts.   $$name: of the view; $$columns: its columns, as texts; $$file: its path, a literal.
CREATE VIEW $name AS SELECT $columns FROM file($file, 'Parquet')
