"""SQL for analysts: a read-only endpoint over the embedded engine that speaks ClickHouse's HTTP interface.

    text ─▶ tree of our own grammar ─▶ each name allowed? ─▶ printed anew ─▶ the engine agrees? ─▶ run ─▶ stream

Owns:      reading (`grammar`), judging and printing (`printer`, `statement`), what may be named (`allowed`,
           `functions`, `schema`), limits and settings (`limits`), running (`engine`), formats (`formats`),
           compression (`compress`), HTTP (`endpoint`).
Owns not:  the views and their words (warehouse migrations, docs/sql.md).
Rules:     what runs is printed from the checked tree, never the text that came. What is not known to be harmless is
           refused, with the reason. Only roles that may see everything get here: the engine has no row security.
"""
