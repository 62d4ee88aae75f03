-- One row: a text of the facts, on its way into an id or a name, that is not plain (ascii.py).
-- Params:  facts = the table; nothing: texts that are read as none, in lower case.
SELECT DISTINCT text
FROM
(
    SELECT arrayJoin([
        ifNull(toString(tenant), ''), toString(issuer), toString(description), ifNull(toString(commitment), ''), toString(sku),
        toString(cluster), ifNull(toString(device_id), ''), toString(model), toString(partition_profile), workload_id, allocation_id]) AS text
    FROM {facts:Identifier}
)
WHERE NOT match(text, '^([!-$&-~]([ -$&-~]*[!-$&-~])?)?$') OR has({nothing:Array(String)}, lower(text))
