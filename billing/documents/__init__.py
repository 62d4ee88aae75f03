"""Invoices as files: HTML, JSON, CSV."""
