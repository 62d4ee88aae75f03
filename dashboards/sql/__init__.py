"""SQL for analysts: a read-only endpoint over the embedded engine that speaks ClickHouse's HTTP interface.

    text ─▶ one statement, in the engine's own words ─▶ its syntax tree ─▶ allowed? ─▶ read-only connection ─▶ stream

Owns:      what may be asked (`allowed`, `check`), limits and settings (`limits`), running (`engine`), formats
           (`formats`), compression (`compress`), HTTP (`endpoint`).
Owns not:  the views and their words (warehouse migrations, docs/sql.md).
Rules:     nothing of a text from outside reaches a connection that may write. What is not known to be harmless is
           refused, with the reason. Only roles that may see everything get here: the engine has no row security.
"""
