"""The pages people look at: read results, compute none.

Owns the Dash app (`app.build_app`), the frame around every page (`frame`, `shell`), what its URL means (`filters`,
`periods`), one module a page (`pages`, found by `registry`, with the .sql files beside it), their words (`languages`)
and what they are put together from (`parts`, `grids`, `figures`, `format`, `kinds`). Owns not: attribution, prices,
invoices (billing), or how the process is run (gpuledger).

To add a page: docs/pages.md.
"""
