"""The pages people look at, and the reports they are sent: read results, compute none.

Owns:      the web application (`app.build_app`), the frame around every page (`frame`, `shell`), what its URL means
           (`filters`, `periods`), what pages are put together from (`parts`, `grids`, `figures`, `format`, `kinds`).
Owns not:  attribution, prices, invoices (billing), who may see what (access), what programs ask (api), or how the
           process is run (gpuledger).

    pages       one module or package a page, its .sql files beside it; found by `registry`
    languages   the words of the pages and reports, one dictionary a language
    reports     a tenant's week or month by mail, and the route that shows it
    days        sums of the ledger's days, so that pages need not read hours
    assets      styles and scripts for the browser

To add a page: docs/pages.md.
"""
