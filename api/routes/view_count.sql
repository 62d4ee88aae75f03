-- One row: how many rows a view has.   $$view; $$where: as in view_rows.sql.
SELECT count() AS n FROM $view WHERE $where
