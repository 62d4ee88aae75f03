"""The pages people look at: read results, compute none.

Owns the Dash app (`app.build_app`), its shell (`shell`), one module a page (`overview`), the questions that
pages ask the store (`data`, with the .sql files beside it) and how numbers and kinds of time look (`format`,
`kinds`). Owns not: attribution, prices, invoices (billing), or how the process is run (gpuledger).

To add a page: a module with `load(store, zone, search)` and `body(answer)`, and a row in `shell.PAGES`.
"""
