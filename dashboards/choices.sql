-- One row: what the filters of a period can choose from, each in the order of names, and its currencies ('' = no price).
-- Parameters: those of ({days}), nothing chosen
SELECT
    arraySort(groupUniqArrayIf(tenant, is_held)) AS tenants,
    arraySort(groupUniqArrayIf(project, is_held)) AS projects,
    arraySort(groupUniqArrayIf(queue, is_held)) AS queues,
    arraySort(groupUniqArray(pool)) AS pools,
    arraySort(groupUniqArray(model)) AS models,
    arraySort(groupUniqArray(cluster)) AS clusters,
    arraySort(groupUniqArrayIf(billing_currency, price IS NOT NULL)) AS currencies,
    countIf(NOT is_held) > 0 AS sees_platform
FROM ({days})
