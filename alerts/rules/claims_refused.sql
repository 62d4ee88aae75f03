-- One row: a reason for which the last close refused claims of the last days.
-- Units:   value: claims.
-- Params:  at; days.
SELECT
    reason,
    count() AS value,
    arrayStringConcat(arraySlice(arraySort(groupUniqArray(allocation_id)), 1, 5), ' ') AS examples,
    arrayStringConcat(arraySort(groupUniqArray(tenant)), ', ') AS tenants
FROM refused_claims
WHERE start_at <= {at:DateTime64(3, 'UTC')} AND start_at > {at:DateTime64(3, 'UTC')} - toIntervalDay({days:UInt32})
GROUP BY reason
