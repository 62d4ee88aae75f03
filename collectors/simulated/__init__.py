"""A fleet that needs no files: a month of shared GPUs with the troubles of real ones; the same seed gives the same
fleet.

    plan ─▶ fleet (nodes, devices, incidents) ─┐
        └─▶ jobs (who asks for what, when) ────┴▶ placement (who held what) ─▶ events
                                                                          ├─▶ streams ─▶ samples
                                                                          └─▶ service levels
    troubles (heat, throttling, memory errors, XIDs) ─▶ metrics, findings

Owns:      the demand, its placement, its telemetry and a rate card to go with it.
Owns not:  anything real; the reference scheduler (scheduler/simulate/fleet.py lets it place the jobs of this fleet).
Words:     a *slot* is what one claim can hold: a device, a share, a replica or a MIG instance. A *holding* is a slot
           held by a job during [start, end). A *stream* is what an exporter measures of one holder on one device.
Traps:     one claim is impossible on purpose (allocation id `impossible-claim`): the books must refuse it.
"""

from collectors.simulated.fleet import FleetPlan
from collectors.simulated.rates import rate_card
from collectors.simulated.simulate import simulate
from collectors.simulated.troubles import trouble_tables

__all__ = ["FleetPlan", "rate_card", "simulate", "trouble_tables"]
