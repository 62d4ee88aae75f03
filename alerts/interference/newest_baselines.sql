-- One row: a baseline as it is now.
SELECT
    cluster, identity, version, model, partition_profile, metric, load, windows, since, until, value, value_low, value_high,
    p99_to_p50
FROM interference_baselines FINAL
ORDER BY cluster, identity, version, model, partition_profile, metric, load
