-- One row: a pool and a model of what a waiting job may run on: those that it asks for, or else those on whose devices jobs of
-- its queue were placed within 30 days before an instant. Of what it asks for, whoever sees some tenants only sees the pools in
-- which those were placed.
-- devices: available of these.   free: of those, allocated to nobody.   Both NULL to whoever sees some tenants only.
-- Parameters: at; cluster, queue String; asked_pool String, asked_models Array(String): of the job, empty: any
SELECT
    d.pool AS pool,
    d.model AS model,
    (SELECT yes FROM sees_all) AS all_seen,
    if(all_seen, toNullable(uniqExact(d.device_id)), NULL) AS devices,
    if(all_seen, toNullable(uniqExactIf(d.device_id, h.device_id = '')), NULL) AS free
FROM devices_at(at = {at:DateTime64(3,'UTC')}) AS d
LEFT JOIN
(
    SELECT DISTINCT cluster, device_id FROM holders(at = {at:DateTime64(3,'UTC')}) WHERE device_id != ''
) AS h ON d.cluster = h.cluster AND d.device_id = h.device_id
WHERE d.cluster = {cluster:String} AND d.state = 'available'
    AND ({asked_pool:String} = '' OR d.pool = {asked_pool:String})
    AND (empty({asked_models:Array(String)}) OR has({asked_models:Array(String)}, d.model))
    AND
    (
        ((SELECT yes FROM sees_all) AND ({asked_pool:String} != '' OR notEmpty({asked_models:Array(String)})))
        OR (d.pool, d.model) IN
        (
            SELECT pool, model
            FROM devices_at(at = {at:DateTime64(3,'UTC')})
            WHERE (cluster, device_id) IN
            (
                SELECT DISTINCT cluster, device_id
                FROM events
                WHERE event IN ('started', 'resized') AND cluster = {cluster:String} AND queue = {queue:String}
                    AND ts > {at:DateTime64(3,'UTC')} - INTERVAL 30 DAY AND ts <= {at:DateTime64(3,'UTC')}
            )
        )
    )
GROUP BY pool, model
ORDER BY pool, model
