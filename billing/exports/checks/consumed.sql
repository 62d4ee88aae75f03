-- One row: the GPU-hours of usage that a FOCUS file of ours says were consumed.
-- Params:  focus = a view of the file, all columns texts.
SELECT
    sum(toDecimal256OrZero(ConsumedQuantity, 15)) AS hours
FROM {focus:Identifier}
WHERE x_LineKind = 'usage' AND ChargeClass IS NULL
