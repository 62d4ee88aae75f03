-- One row: a tenant that held something in the closed hours ('' = nobody was named), by name.
SELECT tenant, min(hour) AS first_hour, max(hour) AS last_hour, arraySort(groupUniqArray(project)) AS projects
FROM ledger
WHERE allocation_id != ''
GROUP BY tenant
ORDER BY tenant
