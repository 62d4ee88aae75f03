-- One row: the row at one position of a chain.   $$table.   Parameters: position UInt64.
SELECT digest FROM $table WHERE position = {position:UInt64}
