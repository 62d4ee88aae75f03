"""One module or package a page, its SQL beside it; each has a `PAGE` (dashboards.registry, docs/pages.md)."""
