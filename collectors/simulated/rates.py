"""A rate card for the simulated fleet."""

from __future__ import annotations

from datetime import timedelta

from collectors.simulated.fleet import DAY, FleetPlan

_CARD = """\
# Prices of the simulated fleet; all made up.
currency: USD
timezone: Europe/Berlin
rates:
  - {{sku: h100, match: {{model: "NVIDIA H100 80GB HBM3"}}, price_per_gpu_hour: "2.90", effective_to: {middle}}}
  - {{sku: h100, match: {{model: "NVIDIA H100 80GB HBM3"}}, price_per_gpu_hour: "2.65", effective_from: {middle}}}
  - {{sku: h100-physics, match: {{model: "NVIDIA H100 80GB HBM3", tenant: physics}}, price_per_gpu_hour: "2.40"}}
  - {{sku: a100, match: {{model: "NVIDIA A100-SXM4-80GB", pool: research}}, price_per_gpu_hour: "1.45"}}
  - {{sku: a100-mig-1g, match: {{pool: research, partition_profile: "1g.10gb"}}, price_per_gpu_hour: "1.75"}}
  - {{sku: mi300x, match: {{model: "AMD Instinct MI300X"}}, price_per_gpu_hour: "2.35"}}
  - {{sku: l40s, match: {{model: "NVIDIA L40S"}}, price_per_gpu_hour: "0.98", effective_to: {middle}}}
  - {{sku: l40s, match: {{model: "NVIDIA L40S"}}, price_per_gpu_hour: "1.04", effective_from: {middle}}}
  - {{sku: l4-dev, match: {{model: "NVIDIA L4", pool: dev}}, price_per_gpu_hour: "0.52"}}
"""


def rate_card(plan: FleetPlan) -> str:
    """YAML. Two prices change in the middle of what is seen of the plan, at an hour that is no day's first."""
    middle = plan.start + timedelta(days=(plan.seen_ms - plan.start_ms) // DAY // 2, hours=9, minutes=30)
    return _CARD.format(middle=f"{middle:%Y-%m-%dT%H:%M:%SZ}")
