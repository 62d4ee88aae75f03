-- One row: on a node of these an allocation that names its device starts at or after an instant.
-- Parameters: nodes Array(String), since DateTime64(3).
SELECT DISTINCT cluster, node
FROM events
WHERE node IN {nodes:Array(String)} AND device_id != '' AND event IN ('started', 'resized', 'resumed')
    AND ts >= {since:DateTime64(3, 'UTC')}
