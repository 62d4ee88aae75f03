-- One row: what the node that is asked is called among the replicas.
SELECT substitution
FROM system.macros
WHERE macro = 'replica'
