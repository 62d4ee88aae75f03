"""SQL for analysts: a read-only endpoint over the embedded engine that speaks ClickHouse's HTTP interface.

    text ─▶ tree of our own grammar ─▶ each name allowed? ─▶ printed anew ─▶ a slot ─▶ a worker: agreed? ─▶ stream
                                                              parts of tables ─▶ frozen copy ─▶ ┘

Owns:      parsing (`grammar`), checking and printing (`printer`, `statement`), which names are allowed (`allowed`,
           `functions`, `schema`), limits and settings (`limits`), running (`engine`), HTTP (`endpoint`).
           Slots (`slots`), the processes (`workers`, `process`), the copy that they read (`snapshot`).
           In such a process: dropping its rights (`sandbox`), running (`worker`), formats (`formats`, `native`),
           compression (`compress`). The protocol between both: `frames`. A ClickHouse server: `server_engine`.
Owns not:  the views and their documentation (warehouse migrations, docs/sql.md).
Rules:     what runs is printed from the checked tree, never the text that came. What is not known to be harmless is
           refused, with the reason. Only roles that may see everything get here: the engine has no row security.
"""
