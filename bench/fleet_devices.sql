-- One row: a device, available from the start.
INSERT INTO devices (ts, cluster, node, device_id, vendor, model, memory_bytes, units, pool, state, batch)
SELECT {start:DateTime64(3, 'UTC')}, 'bench', concat('node-', toString(intDiv(number, 8))),
    concat('GPU-', leftPad(toString(number), 8, '0'), '-0000-4000-8000-000000000000'), 'nvidia',
    if(number % 2 = 0, 'NVIDIA H100 80GB HBM3', 'NVIDIA A100-SXM4-80GB'), 85899345920, 1, 'train', 'available', 1
FROM numbers({devices:UInt64})
