-- One row: a rule about several rows of a FOCUS file, and how many times it is broken.
-- Params:  focus = a view of the file, all columns texts.
SELECT 'a ServiceName has several ServiceCategories or ServiceSubcategories' AS rule, count() AS rows
FROM (SELECT ServiceName FROM {focus:Identifier} GROUP BY ServiceName HAVING uniqExact(ServiceCategory, ServiceSubcategory) > 1)
HAVING rows > 0
UNION ALL
SELECT 'a SkuPriceId has several ListUnitPrices, units or details' AS rule, count() AS rows
FROM (SELECT SkuPriceId FROM {focus:Identifier} WHERE SkuPriceId IS NOT NULL GROUP BY SkuPriceId HAVING uniqExact(ListUnitPrice, PricingUnit, SkuPriceDetails) > 1)
HAVING rows > 0
UNION ALL
SELECT 'an InvoiceId has several accounts, issuers, currencies or billing periods' AS rule, count() AS rows
FROM (SELECT InvoiceId FROM {focus:Identifier} WHERE InvoiceId IS NOT NULL GROUP BY InvoiceId HAVING uniqExact(BillingAccountId, InvoiceIssuerName, BillingCurrency, BillingPeriodStart) > 1)
HAVING rows > 0
