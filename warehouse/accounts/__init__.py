"""Accounts of a ClickHouse server: who may read and write which of our tables, and within which limits.

    declaration ─▶ statements (CREATE ROLE, GRANT, ...: `gpuledger init --accounts`)
                └▶ users_d    (a file of users.d: Compose)

Owns:      roles, settings profiles, quotas, and row policies of tenants; one declaration, two renderings.
Owns not:  which gpuledger users may run SQL (access), what a statement may contain (api/sql).
Words:     *account* = a ClickHouse user with the role, profile and quota of its name; *readable* = what analysts read.
Rules:     an account gets what it needs by name. Only the writer may use a table that no list here names.
"""
