-- One row: a text of the facts, on its way into an id or a name, that is not printable ASCII or has a percent sign.
-- Params:  facts = the table.
SELECT DISTINCT text
FROM
(
    SELECT arrayJoin([
        ifNull(toString(tenant), ''), toString(issuer), toString(description), ifNull(toString(commitment), ''), toString(sku),
        toString(cluster), ifNull(toString(device_id), ''), toString(model), toString(partition_profile), workload_id, allocation_id]) AS text
    FROM {facts:Identifier}
)
WHERE NOT match(text, '^[ -$&-~]*$')
