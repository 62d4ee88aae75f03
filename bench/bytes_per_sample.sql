-- One row: size of the samples table as it lies on disk.
SELECT sum(bytes_on_disk) / greatest(1, sum(rows)) AS bytes_per_sample, count() AS parts
FROM system.parts
WHERE database = currentDatabase() AND table = 'samples' AND active
