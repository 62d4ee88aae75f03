"""SQL for analysts: a read-only endpoint over the embedded engine that speaks ClickHouse's HTTP interface.

    text ─▶ one statement, in the engine's own words ─▶ its syntax tree ─▶ allowed? ─▶ a turn ─▶ a worker ─▶ stream
                                                              parts of tables ─▶ frozen copy ─▶ ┘

Owns:      what may be asked (`allowed`, `check`), limits and settings (`limits`), asking (`engine`), HTTP (`endpoint`).
           Whose turn it is (`slots`), the processes (`workers`, `process`), what they read (`snapshot`).
           In such a process: what it gives up (`sandbox`), running (`worker`), formats (`formats`, `native`),
           compression (`compress`). What both say to each other: `frames`.
Owns not:  the views and their words (warehouse migrations, docs/sql.md).
Rules:     nothing of a text from outside reaches a connection that may write. What is not known to be harmless is
           refused, with the reason. Only roles that may see everything get here: the engine has no row security.
"""
