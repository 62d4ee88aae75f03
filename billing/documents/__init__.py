"""Invoices, credit notes and statements as files: PDF, HTML, JSON, CSV.

Owns:      the content of a page (`page`, `statement`), its layout (`templates`), one module per format, and the files.
Owns not:  the documents themselves (billing.invoicing); nothing here computes an amount that is owed.
Words:     a *page* is a document as text and figures, ready for a template; a *statement* is a month of a tenant day by
           day, or of the platform pool by pool.
"""
