"""SQL for analysts: a read-only endpoint over the embedded engine that speaks ClickHouse's HTTP interface.

    text ─▶ tree of our own grammar ─▶ each name allowed? ─▶ printed anew ─▶ a turn ─▶ a worker: agreed? ─▶ stream
                                                              parts of tables ─▶ frozen copy ─▶ ┘

Owns:      reading (`grammar`), judging and printing (`printer`, `statement`), what may be named (`allowed`,
           `functions`, `schema`), limits and settings (`limits`), asking (`engine`), HTTP (`endpoint`).
           Whose turn it is (`slots`), the processes (`workers`, `process`), what they read (`snapshot`).
           In such a process: what it gives up (`sandbox`), running (`worker`), formats (`formats`, `native`),
           compression (`compress`). What both say to each other: `frames`. A ClickHouse server: `server_engine`.
Owns not:  the views and their words (warehouse migrations, docs/sql.md).
Rules:     what runs is printed from the checked tree, never the text that came. What is not known to be harmless is
           refused, with the reason. Only roles that may see everything get here: the engine has no row security.
"""
