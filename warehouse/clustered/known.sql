-- One row: a cluster that the node that is asked has in its configuration.
SELECT DISTINCT cluster
FROM system.clusters
ORDER BY cluster
