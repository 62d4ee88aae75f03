"""The schema as statements see it: only the tables they may read.

`system.tables` and its like become subqueries with the columns that clients ask for, cut to the allowed tables; SHOW is
answered from them.
"""

from __future__ import annotations

from api.sql.allowed import Allowed
from api.sql.quote import text_literal

COLUMNS = {
    "system.tables": """
        database name table engine is_temporary metadata_modification_time create_table_query engine_full as_select
        partition_key sorting_key primary_key sampling_key total_rows total_bytes comment
        """,
    "system.columns": """
        database table name type position default_kind default_expression comment is_in_partition_key
        is_in_sorting_key is_in_primary_key is_in_sampling_key compression_codec character_octet_length
        numeric_precision numeric_precision_radix numeric_scale datetime_precision
        """,
    "system.databases": "name engine comment",
    "system.settings": "name value changed description min max readonly type default",
    "information_schema.tables": """
        table_catalog table_schema table_name table_type table_rows data_length table_collation table_comment
        """,
    "information_schema.columns": """
        table_catalog table_schema table_name column_name ordinal_position column_default is_nullable data_type
        character_maximum_length character_octet_length numeric_precision numeric_precision_radix numeric_scale
        datetime_precision column_comment column_type
        """,
    "information_schema.schemata": "catalog_name schema_name schema_owner",
}
"""Of the tables that are cut, what they keep: not paths, nor what depends on what."""


def cut(name: str, allowed: Allowed) -> str:
    """A subquery in place of a system table, `database.name` in lower case; empty: the table may be read as it is."""
    if name not in COLUMNS:
        return ""
    columns = ", ".join(f"`{column}`" for column in COLUMNS[name].split())
    return f"(SELECT {columns} FROM {name} WHERE {_rows(name, allowed)})"


def _rows(name: str, allowed: Allowed) -> str:
    database = text_literal(allowed.database)
    if name in ("system.databases", "information_schema.schemata"):
        column = "name" if name == "system.databases" else "schema_name"
        return f"`{column}` IN ({database}, 'system', 'information_schema')"
    if name == "system.settings":
        return "NOT startsWith(`name`, 'additional_')"
    schema, table = ("table_schema", "table_name") if name.startswith("information") else ("database", "table")
    names = ", ".join(text_literal(one) for one in sorted(allowed.tables - allowed.closed)) or "''"
    return f"`{schema}` = {database} AND `{table}` IN ({names})"


def show_tables(allowed: Allowed, database: str, full: bool, like: str, limit: str) -> str:
    """like: `LIKE 'text'`, or empty. limit: `LIMIT 3`, or empty."""
    columns = "`name`, `engine` AS `table_type`" if full else "`name`"
    where = f"`database` = {text_literal(database or allowed.database)}" + (f" AND `name` {like}" if like else "")
    return _listed(f"SELECT {columns} FROM {cut('system.tables', allowed)} WHERE {where} ORDER BY `name`", limit)


def show_databases(allowed: Allowed, like: str, limit: str) -> str:
    where = f" WHERE `name` {like}" if like else ""
    return _listed(f"SELECT `name` FROM {cut('system.databases', allowed)}{where} ORDER BY `name`", limit)


def _listed(text: str, limit: str) -> str:
    return f"{text} {limit}" if limit else text
