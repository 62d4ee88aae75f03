-- One row: a macro of the node that is asked.
SELECT macro
FROM system.macros
