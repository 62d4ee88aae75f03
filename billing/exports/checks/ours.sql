-- One row: a rule about the columns that gpuledger adds, and how many rows break it.
-- Params:  focus = a view of the file, all columns texts.
SELECT broken.1 AS rule, broken.2 AS rows
FROM
(
    SELECT arrayJoin([
        ('used, idle and unmetered seconds are not the allocated seconds', countIf(
            toDecimal256OrNull(x_GpuUsedSeconds, 9) + toDecimal256OrNull(x_GpuIdleSeconds, 9) + toDecimal256OrNull(x_GpuUnmeteredSeconds, 9)
            != toDecimal256OrNull(x_GpuAllocatedSeconds, 9))),
        ('allocated seconds are not the ConsumedQuantity', countIf(x_LineKind = 'usage' AND ChargeClass IS NULL
            AND abs(toDecimal256OrNull(ConsumedQuantity, 15) * 3600 - toDecimal256OrNull(x_GpuAllocatedSeconds, 9)) > 0.000001 * greatest(1, toFloat64OrZero(ConsumedQuantity)))),
        ('a GPU was used more than it was held', countIf(toDecimal256OrNull(x_GpuUsedSeconds, 9) > toDecimal256OrNull(x_GpuAllocatedSeconds, 9))),
        ('coverage is not between 0 and 1', countIf(toFloat64OrNull(x_Coverage) NOT BETWEEN 0 AND 1)),
        ('a Correction does not say what it corrects', countIf(ChargeClass = 'Correction' AND x_CorrectsInvoiceId IS NULL)),
        ('a reduction is a row of its own although there was usage to be reduced', countIf(x_LineKind = 'discount' AND ChargeClass IS NULL AND ChargeCategory = 'Usage'))
    ]) AS broken
    FROM {focus:Identifier}
)
WHERE rows > 0
