-- One row: an objective in force, as it stands for a cluster, tenant and subject (a queue or a service).
-- Units:   value: burn rate to the limit of its window pair, of the pair that is nearest to it; 1: at the limit in the
--          long and in the short window. Null: not known, and what is known lies below.
-- Shape:   as measured (docs/slo.md); the server measures before it evaluates.
-- Params:  at; paces = fast, medium (5 min to 6 h) or slow (6 h and 3 d).
SELECT
    objective, cluster, tenant, subject, kind, owner, target, sli, budget_left, state, coverage, measured_until,
    burn_1h, burn_6h, burn_3d,
    arrayFilter(pair -> has({paces:Array(String)}, pair.1), [
        ('fast', if(burn_1h IS NULL OR burn_5m IS NULL, NULL, least(burn_1h, burn_5m) / limit_fast)),
        ('medium', if(burn_6h IS NULL OR burn_30m IS NULL, NULL, least(burn_6h, burn_30m) / limit_medium)),
        ('slow', if(burn_3d IS NULL OR burn_6h IS NULL, NULL, least(burn_3d, burn_6h) / limit_slow))]) AS pairs,
    arrayFilter(pair -> pair.2 IS NOT NULL, pairs) AS known,
    arrayReverseSort(pair -> pair.2, known)[1] AS worst,
    worst.1 AS pace,
    if(notEmpty(known) AND (length(known) = length(pairs) OR worst.2 >= 1), worst.2, NULL) AS value
FROM slo_status(at = {at:DateTime64(3, 'UTC')})
