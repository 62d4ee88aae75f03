"""Rules over the warehouse, their state, and their way to on-call.

Owns:      rules as files, their evaluation, alert states (inactive, pending, firing, resolved), routing, SLOs.
Owns not:  the numbers it looks at (billing, the warehouse), what people see of it (dashboards).
Nothing is built here yet.
"""
