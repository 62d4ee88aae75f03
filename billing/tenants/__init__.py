"""Tenant mapping: who pays for an allocation, from what its source reported (tenant, project, queue, ...).

The mapping's file format (`mapping`), which tenant it gives when (`owners`), which one is in force (`applied`), and
what it leaves open (`unmapped`). It knows nothing of prices.
"""

from billing.tenants.applied import (
    AppliedMapping,
    apply_mapping,
    check_mapping,
    closed_with_another,
    current_mapping,
    mapping_history,
)
from billing.tenants.mapping import OwnerRule, TenantError, TenantMapping, load_mapping, parse_mapping
from billing.tenants.owners import Combination, Owner, OwnerBook
from billing.tenants.unmapped import Preview, preview, unmapped

__all__ = [
    "AppliedMapping",
    "Combination",
    "Owner",
    "OwnerBook",
    "OwnerRule",
    "Preview",
    "TenantError",
    "TenantMapping",
    "apply_mapping",
    "check_mapping",
    "closed_with_another",
    "current_mapping",
    "load_mapping",
    "mapping_history",
    "parse_mapping",
    "preview",
    "unmapped",
]
