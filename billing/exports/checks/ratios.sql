-- One row: a rule of FOCUS 1.3 about parts of a device, and how many devices and periods (or rows) break it.
-- Params:  focus = a view of the file, all columns texts.
SELECT 'AllocatedRatios of one device and period do not sum to 1' AS rule, count() AS rows
FROM
(
    SELECT RegionId, ResourceId, ChargePeriodStart
    FROM {focus:Identifier}
    WHERE AllocatedMethodId IS NOT NULL
    GROUP BY RegionId, ResourceId, ChargePeriodStart
    HAVING sum(toDecimal128OrZero(JSONExtractRaw(assumeNotNull(AllocatedMethodDetails), 'Elements', 1, 'AllocatedRatio'), 12)) != 1
)
HAVING rows > 0
UNION ALL
SELECT 'an allocated charge lacks its method, details or resource' AS rule, count() AS rows
FROM {focus:Identifier}
WHERE (AllocatedMethodId IS NULL) != (AllocatedResourceId IS NULL) OR (AllocatedMethodId IS NULL) != (AllocatedMethodDetails IS NULL)
    OR (AllocatedMethodId IS NOT NULL AND ResourceId IS NULL)
HAVING rows > 0
