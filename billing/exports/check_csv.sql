-- A CSV of FOCUS as texts, read once.   $$name: of the table; $$columns: its columns with types, $$file: its path; literals.
-- Traps:   rows are wide: blocks of the usual size, one for each thread, take gigabytes.
CREATE TABLE $name ENGINE = Log AS
SELECT * FROM file($file, 'CSVWithNames', $columns)
SETTINGS
    max_threads = 2, max_insert_threads = 1, max_block_size = 8192, max_insert_block_size = 8192,
    min_insert_block_size_rows = 8192, min_insert_block_size_bytes = 0, input_format_parallel_parsing = 1
