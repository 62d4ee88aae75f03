-- One row: a row at a position of a chain.   $$table.   Parameters: position UInt64.
SELECT digest FROM $table WHERE position = {position:UInt64}
