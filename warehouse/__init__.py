"""Ground floor: record types, the ClickHouse schema, and one client over chDB or a server.

Owns:      what a record is (`records`), the numbered migrations (`migrations/*.sql`), the connection (`store`).
Owns not:  where records come from (collectors), whether they are good (ingest), what they mean (billing).
Words:     *store* = one database, embedded (`chdb:///path`, `chdb://memory`) or served (`clickhouse://…`);
           *fact* = one of the four append-only record types; everything else can be derived again from facts.

    migrations   the numbered schema, a file for each subject
    upgrades     what older schemas need first, to become it
    chained      SQL of the chains that show whether a sealed row was changed (`chain`)
    accounts     accounts of a ClickHouse server: roles, quotas, row policies
"""
