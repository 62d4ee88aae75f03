"""FOCUS's columns by version, in the specification's order; ours come last and start with x_."""

from __future__ import annotations

from billing.exports.errors import ExportError

FOCUS_1_2 = [
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
]
NEW_IN_1_3 = [
    "AllocatedMethodDetails",
    "AllocatedMethodId",
    "AllocatedResourceId",
    "AllocatedResourceName",
    "AllocatedTags",
    "ContractApplied",
    "HostProviderName",
    "ServiceProviderName",
]
CUSTOM = [
    "x_Tenant",
    "x_Issuer",
    "x_Description",
    "x_GpuAllocatedSeconds",
    "x_GpuUsedSeconds",
    "x_GpuIdleSeconds",
    "x_GpuUnmeteredSeconds",
    "x_Coverage",
    "x_UsedCost",
    "x_Queue",
    "x_Project",
    "x_CostCenter",
    "x_Node",
    "x_DeviceId",
    "x_AllocationId",
    "x_Run",
    "x_RateCard",
    "x_LineKind",
    "x_Rule",
    "x_CorrectsInvoiceId",
]
VERSIONS = ("1.2", "1.3")

INSTANTS = frozenset({"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"})
NUMBERS = frozenset(
    [
        "BilledCost",
        "CommitmentDiscountQuantity",
        "ConsumedQuantity",
        "ContractedCost",
        "ContractedUnitPrice",
        "EffectiveCost",
        "ListCost",
        "ListUnitPrice",
        "PricingCurrencyContractedUnitPrice",
        "PricingCurrencyEffectiveCost",
        "PricingCurrencyListUnitPrice",
        "PricingQuantity",
        "x_GpuAllocatedSeconds",
        "x_GpuUsedSeconds",
        "x_GpuIdleSeconds",
        "x_GpuUnmeteredSeconds",
        "x_Coverage",
        "x_UsedCost",
    ]
)
INTEGERS = frozenset({"x_Run"})
"""All other columns are texts."""


def columns_of(version: str) -> tuple[str, ...]:
    """The columns of a file of a version. Errors: ExportError if we do not write it."""
    if version not in VERSIONS:
        raise ExportError("--version", f"{version!r} is not a supported version of FOCUS", "Use 1.2 or 1.3")
    standard = FOCUS_1_2 if version == "1.2" else sorted(FOCUS_1_2 + NEW_IN_1_3)
    return (*standard, *CUSTOM)
