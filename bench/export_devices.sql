-- Writes the fleet's devices as a Parquet file. Params: path of the file.
INSERT INTO FUNCTION file({path:String}, 'Parquet')
SELECT ts, cluster, node, device_id, vendor, model, memory_bytes, units, pool, toString(state) AS state
FROM devices
