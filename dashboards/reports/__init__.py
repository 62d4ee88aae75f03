"""Reports by mail: what a tenant's week or month cost and how it was used.

    closed books ─▶ report (figures of billing) ─▶ HTML and text, charts as PNG ─▶ SMTP of alerts.transports

Owns:      the content of a report (`report`), its layout (`pages`, `templates/`), the mail (`mail`), who gets which
           report when (`schedule`), sending them periodically (`periodic`), the API's route that shows one (`route`).
Owns not:  any figure: billing computes them, over the tenant's own scope of the store.
Rules:     a report covers a period that is closed to its end. The audit records what was sent, so that a restart sends
           nothing twice. Charts are PNG beside the HTML, since mail programs leave SVG out; typst, which sets the
           invoices' PDFs, draws them: no browser, no further dependency.
"""
