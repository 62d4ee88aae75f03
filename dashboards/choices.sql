-- One row: a day, and what filters can choose from in it, and its currencies ('' = no price).
-- Parameters: those of ({days}), nothing chosen
SELECT
    day AS at,
    groupUniqArrayIf(tenant, is_held) AS tenants,
    groupUniqArrayIf(project, is_held) AS projects,
    groupUniqArrayIf(queue, is_held) AS queues,
    groupUniqArray(pool) AS pools,
    groupUniqArray(model) AS models,
    groupUniqArray(cluster) AS clusters,
    groupUniqArrayIf(billing_currency, price IS NOT NULL) AS currencies,
    countIf(NOT is_held) > 0 AS sees_platform
FROM ({days})
GROUP BY day
