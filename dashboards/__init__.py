"""The web pages, and the reports sent by mail. They display results and compute none.

    URL ─▶ filters ─▶ frame ─▶ a page (pages/*) ─▶ its SQL, over the reader's own scope ─▶ parts, grids, figures

Owns:      the web application (`app.build_app`), the frame around every page (`frame`, `shell`), what its URL means
           (`filters`, `periods`), the building blocks of pages (`parts`, `grids`, `figures`, `headline_figures`,
           `format`, `kinds`), the cache of their answers (`data_version`).
Owns not:  attribution, prices, invoices (billing), who may see what (access), what programs ask (api), or how the
           process is run (gpuledger).

    pages       one module or package per page, its .sql files beside it; found by `registry`
    languages   the texts of the pages and reports, one dictionary per language
    reports     a tenant's week or month by mail, and the route that shows it
    days        daily sums of the ledger, so that pages need not read hours
    measured    what was measured of each device in each hour, so that pages need not read samples
    assets      styles and scripts for the browser

To add a page: docs/pages.md.
"""
