"""The pages: one module or package each, its SQL beside it; each has a `PAGE` (dashboards.registry, docs/pages.md)."""
