-- One row: a row of a view, in the order of time and then of its columns.
-- $$columns: those asked for; $$view; $$where: whose rows of which period, with its params; $$order: columns.
SELECT $columns FROM $view WHERE $where ORDER BY $order LIMIT {limit:UInt64} OFFSET {offset:UInt64}
