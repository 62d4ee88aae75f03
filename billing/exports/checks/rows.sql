-- One row: a rule that every row of a FOCUS file must keep, and how many rows break it.
-- The FinOps Foundation's validator lets an enumeration pass as soon as one row fits, and looks at products only where
-- ChargeClass is given; these look at every row.
-- Params:  focus = a view of the file, all columns texts, NULL where nothing stands.
WITH
    '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$' AS instant,
    '^-?[0-9]+([.][0-9]+)?$' AS number,
    ChargeClass IS NULL AS regular,
    toDecimal256OrNull(ListUnitPrice, 9) * toDecimal256OrNull(PricingQuantity, 15) AS list_product,
    toDecimal256OrNull(ContractedUnitPrice, 9) * toDecimal256OrNull(PricingQuantity, 15) AS contracted_product
SELECT broken.1 AS rule, broken.2 AS rows
FROM
(
    SELECT arrayJoin([
        ('BilledCost is null', countIf(BilledCost IS NULL)),
        ('ContractedCost is null', countIf(ContractedCost IS NULL)),
        ('EffectiveCost is null', countIf(EffectiveCost IS NULL)),
        ('ListCost is null', countIf(ListCost IS NULL)),
        ('BillingAccountId is null', countIf(BillingAccountId IS NULL)),
        ('BillingCurrency is null', countIf(BillingCurrency IS NULL)),
        ('BillingPeriodStart is null', countIf(BillingPeriodStart IS NULL)),
        ('BillingPeriodEnd is null', countIf(BillingPeriodEnd IS NULL)),
        ('ChargePeriodStart is null', countIf(ChargePeriodStart IS NULL)),
        ('ChargePeriodEnd is null', countIf(ChargePeriodEnd IS NULL)),
        ('ChargeCategory is null', countIf(ChargeCategory IS NULL)),
        ('ChargeFrequency is null', countIf(ChargeFrequency IS NULL)),
        ('InvoiceIssuerName is null', countIf(InvoiceIssuerName IS NULL)),
        ('ProviderName is null', countIf(ProviderName IS NULL)),
        ('PublisherName is null', countIf(PublisherName IS NULL)),
        ('ServiceCategory is null', countIf(ServiceCategory IS NULL)),
        ('ServiceName is null', countIf(ServiceName IS NULL)),
        ('ServiceSubcategory is null', countIf(ServiceSubcategory IS NULL)),

        ('ChargeCategory is none of Usage, Purchase, Tax, Credit, Adjustment',
            countIf(ChargeCategory NOT IN ('Usage', 'Purchase', 'Tax', 'Credit', 'Adjustment'))),
        ('ChargeClass is neither null nor Correction', countIf(ChargeClass != 'Correction')),
        ('ChargeFrequency is none of One-Time, Recurring, Usage-Based',
            countIf(ChargeFrequency NOT IN ('One-Time', 'Recurring', 'Usage-Based'))),
        ('PricingCategory is none of Standard, Committed, Dynamic, Other',
            countIf(PricingCategory NOT IN ('Standard', 'Committed', 'Dynamic', 'Other'))),
        ('CommitmentDiscountCategory is neither Spend nor Usage', countIf(CommitmentDiscountCategory NOT IN ('Spend', 'Usage'))),
        ('CommitmentDiscountStatus is neither Used nor Unused', countIf(CommitmentDiscountStatus NOT IN ('Used', 'Unused'))),
        ('CapacityReservationStatus is neither Used nor Unused', countIf(CapacityReservationStatus NOT IN ('Used', 'Unused'))),
        ('ServiceCategory is none of FOCUS''s nineteen', countIf(ServiceCategory NOT IN (
            'AI and Machine Learning', 'Analytics', 'Business Applications', 'Compute', 'Databases', 'Developer Tools',
            'Identity', 'Integration', 'Internet of Things', 'Management and Governance', 'Media', 'Migration', 'Mobile',
            'Multicloud', 'Networking', 'Other', 'Security', 'Storage', 'Web'))),
        ('ServiceSubcategory does not belong to ServiceCategory', countIf(
            (ServiceCategory = 'AI and Machine Learning' AND ServiceSubcategory NOT IN ('AI Platforms', 'Bots',
                'Generative AI', 'Machine Learning', 'Natural Language Processing', 'Other (AI and Machine Learning)'))
            OR (ServiceCategory = 'Compute' AND ServiceSubcategory NOT IN ('Containers', 'End User Computing',
                'Quantum Compute', 'Serverless Compute', 'Virtual Machines', 'Other (Compute)')))),

        ('ListUnitPrice x PricingQuantity is not ListCost', countIf(regular AND list_product != toDecimal256OrNull(ListCost, 24))),
        ('ContractedUnitPrice x PricingQuantity is not ContractedCost',
            countIf(regular AND contracted_product != toDecimal256OrNull(ContractedCost, 24))),
        ('a cost or quantity of Usage or Purchase is negative, and it is no Correction', countIf(regular
            AND ChargeCategory IN ('Usage', 'Purchase')
            AND (startsWith(ifNull(BilledCost, ''), '-') OR startsWith(ifNull(EffectiveCost, ''), '-')
                OR startsWith(ifNull(ContractedCost, ''), '-') OR startsWith(ifNull(ListCost, ''), '-')
                OR startsWith(ifNull(PricingQuantity, ''), '-') OR startsWith(ifNull(ConsumedQuantity, ''), '-')))),
        ('a unit price is negative', countIf(startsWith(ifNull(ListUnitPrice, ''), '-') OR startsWith(ifNull(ContractedUnitPrice, ''), '-'))),
        ('a cost, quantity or price is no plain decimal', countIf(
            NOT match(ifNull(BilledCost, '0'), number) OR NOT match(ifNull(EffectiveCost, '0'), number)
            OR NOT match(ifNull(ContractedCost, '0'), number) OR NOT match(ifNull(ListCost, '0'), number)
            OR NOT match(ifNull(PricingQuantity, '0'), number) OR NOT match(ifNull(ConsumedQuantity, '0'), number)
            OR NOT match(ifNull(ListUnitPrice, '0'), number) OR NOT match(ifNull(ContractedUnitPrice, '0'), number))),

        ('a date is not like 2026-10-01T00:00:00Z', countIf(
            NOT match(ifNull(BillingPeriodStart, ''), instant) OR NOT match(ifNull(BillingPeriodEnd, ''), instant)
            OR NOT match(ifNull(ChargePeriodStart, ''), instant) OR NOT match(ifNull(ChargePeriodEnd, ''), instant))),
        ('a period does not end after it starts', countIf(ChargePeriodEnd <= ChargePeriodStart OR BillingPeriodEnd <= BillingPeriodStart)),
        ('a charge that is no Correction lies outside its billing period',
            countIf(regular AND (ChargePeriodStart < BillingPeriodStart OR ChargePeriodEnd > BillingPeriodEnd))),

        ('a Purchase is Usage-Based', countIf(ChargeCategory = 'Purchase' AND ChargeFrequency = 'Usage-Based')),
        ('a Usage has no ConsumedQuantity', countIf(regular AND ChargeCategory = 'Usage' AND ConsumedQuantity IS NULL
            AND ifNull(CommitmentDiscountStatus, '') != 'Unused' AND ifNull(CapacityReservationStatus, '') != 'Unused')),
        ('what is Unused was consumed', countIf(ConsumedQuantity IS NOT NULL AND (CommitmentDiscountStatus = 'Unused' OR CapacityReservationStatus = 'Unused'))),
        ('a Tax has a quantity', countIf(ChargeCategory = 'Tax' AND (PricingQuantity IS NOT NULL OR ConsumedQuantity IS NOT NULL))),
        ('a quantity is without its unit, or a unit without its quantity', countIf(
            (PricingQuantity IS NULL) != (PricingUnit IS NULL) OR (ConsumedQuantity IS NULL) != (ConsumedUnit IS NULL))),
        ('a unit price is without SkuPriceId', countIf(ListUnitPrice IS NOT NULL AND SkuPriceId IS NULL)),
        ('SkuPriceId is without SkuId', countIf(SkuPriceId IS NOT NULL AND SkuId IS NULL)),
        ('an account or sub account has no name, or a name without an id', countIf(
            (BillingAccountId IS NULL) != (BillingAccountName IS NULL) OR (SubAccountId IS NULL) != (SubAccountName IS NULL))),
        ('a resource''s name or type is without its id', countIf(ResourceId IS NULL AND (ResourceName IS NOT NULL OR ResourceType IS NOT NULL))),
        ('Tags or SkuPriceDetails is not JSON object', countIf(
            NOT (startsWith(ifNull(Tags, '{}'), '{') AND isValidJSON(ifNull(Tags, '{}')))
            OR NOT (startsWith(ifNull(SkuPriceDetails, '{}'), '{') AND isValidJSON(ifNull(SkuPriceDetails, '{}'))))),
        ('a currency is no code of three letters', countIf(NOT match(ifNull(BillingCurrency, ''), '^[A-Z]{3}$') OR NOT match(ifNull(PricingCurrency, 'XXX'), '^[A-Z]{3}$'))),
        ('an id, a name, a unit or a description is not in printable ASCII', arraySum([COLUMNS(
            '^(AvailabilityZone|BillingAccount(Id|Name|Type)|BillingCurrency|CapacityReservationId|ChargeDescription|CommitmentDiscount(Id|Name|Type|Unit)|ConsumedUnit|InvoiceId|InvoiceIssuerName|Pricing(Currency|Unit)|ProviderName|PublisherName|Region(Id|Name)|Resource(Id|Name|Type)|ServiceName|Sku(Id|Meter|PriceId)|SubAccount(Id|Name|Type))$')
            APPLY (x -> countIf(NOT match(ifNull(x, ''), '^[ -~]*$')))])),
        ('an empty text stands where nothing should', arraySum([COLUMNS('.*') APPLY (x -> countIf(x = ''))]))
    ]) AS broken
    FROM {focus:Identifier}
)
WHERE rows > 0
