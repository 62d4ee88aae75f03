-- One row: a disputed device had so many units, in that node, during [start_ms, end_ms).
SELECT cluster, device_id, node, units, start_ms, end_ms
FROM {states:Identifier}
WHERE (cluster, device_id) IN (SELECT cluster, device_id FROM {disputed:Identifier})
ORDER BY cluster, device_id, start_ms
