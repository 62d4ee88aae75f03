"""Invoices, credit notes and statements as files: PDF, HTML, JSON, CSV.

Owns:      what a page says (`page`, `statement`), how it looks (`templates`), one module a format, and the files.
Owns not:  the documents themselves (billing.invoicing); nothing here computes an amount that is owed.
Words:     a *page* is a document in words and figures, ready to be set; a *statement* is a month of a tenant day by
           day, or of the platform pool by pool.
"""
