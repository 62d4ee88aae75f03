-- One row: what the filters of a period can choose from, each in the order of names, and its currencies ('' = no price).
-- Parameters: start, end DateTime64(3) (UTC, [start, end))
SELECT
    arraySort(groupUniqArrayIf(tenant, allocation_id != '')) AS tenants,
    arraySort(groupUniqArrayIf(project, allocation_id != '')) AS projects,
    arraySort(groupUniqArrayIf(queue, allocation_id != '')) AS queues,
    arraySort(groupUniqArray(pool)) AS pools,
    arraySort(groupUniqArray(model)) AS models,
    arraySort(groupUniqArray(cluster)) AS clusters,
    arraySort(groupUniqArrayIf(billing_currency, list_unit_price IS NOT NULL)) AS currencies,
    countIf(allocation_id = '') > 0 AS sees_platform
FROM ledger
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
