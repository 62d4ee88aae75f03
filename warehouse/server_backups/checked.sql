-- One row: files of a table, and whether they are what its own checksums say.   $table, $id: as in `partitions`.
CHECK TABLE $table PARTITION ID $id SETTINGS check_query_single_value_result = 0
