-- One row: a function that the engine has, the name that it is another one of, and what kind it is.
SELECT name, alias_to, is_aggregate, categories
FROM system.functions
