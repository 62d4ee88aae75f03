"""Accounts of a ClickHouse server: who may read and write which of our tables, and within which limits.

    declaration ─▶ statements (CREATE ROLE, GRANT, ...: `gpuledger init --accounts`)
                └▶ users_d    (a file of users.d: Compose)

Owns:      roles, settings profiles, quotas, and row policies of tenants; one declaration, two renderings.
Owns not:  who of our people may ask SQL (access), what a statement may say (api/sql).
Words:     *account* = a ClickHouse user with the role, profile and quota of its name; *readable* = what analysts read.
Rules:     an account gets what it needs by name. A table that is in no list here is nobody's but the writer's.
"""
