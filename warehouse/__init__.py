"""Ground floor: record types, the ClickHouse schema, and one client over chDB or a server.

Owns:      what a record is (`records`), the numbered migrations (`migrations/*.sql`), the connection (`store`).
Owns not:  where records come from (collectors), whether they are valid (ingest), what they mean (billing).
Words:     *store* = one database, embedded (`chdb:///path`, `chdb://memory`) or served (`clickhouse://…`);
           *fact* = one of the four append-only record types; everything else can be derived again from facts.

    migrations   the numbered schema, a file for each subject
    upgrades     what turns the schema of an older release into the one that the migrations expect
    chained      SQL of the hash chains that reveal a changed row (`chain`)
    accounts     accounts of a ClickHouse server: roles, quotas, row policies
    clustered    SQL about the nodes of a ClickHouse cluster (`cluster`)
    server_backups  SQL of backups that a ClickHouse server makes itself (`server_backup`)

The modules beside `store` are small tools that every package needs: files that people write (`written_files`,
`yaml_text`, `json_text`), private files, thread pools (`lanes`), locks between processes (`turns`), backups; and
`isolation`, what a workload may have of a device.
A new record column, table or migration: CONTRIBUTING.md.
"""
