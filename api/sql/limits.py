"""How much a statement may use, and which settings the caller may choose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from api.sql.errors import BAD_ARGUMENTS, READONLY, SqlError


@dataclass(frozen=True)
class Limits:
    """seconds: of a statement.   rows, bytes: of an answer, as the engine counts; whole_bytes: of one made in memory.
    memory_bytes, threads: of a statement.   at_once: statements that run; others wait so many seconds.
    text_bytes: of a statement's text.
    """

    seconds: int = 60
    rows: int = 5_000_000
    bytes: int = 2_000_000_000
    whole_bytes: int = 128_000_000
    memory_bytes: int = 2_000_000_000
    threads: int = 2
    at_once: int = 4
    waiting_seconds: float = 10.0
    text_bytes: int = 262_144

    def settings(self, whole: bool) -> dict[str, int | str]:
        """As the engine names them. whole: the answer is one document, made in memory."""
        return {
            "max_execution_time": self.seconds,
            "timeout_overflow_mode": "throw",
            "max_result_rows": self.rows,
            "max_result_bytes": self.whole_bytes if whole else self.bytes,
            "result_overflow_mode": "throw",
            "max_memory_usage": self.memory_bytes,
            "max_threads": self.threads,
            "max_query_size": 16 * self.text_bytes,  # what is printed of a text has every odd byte escaped
            "max_ast_depth": 500,
            "max_ast_elements": 20_000,
            "max_expanded_ast_elements": 100_000,
            "max_parser_depth": 500,
            "max_recursive_cte_evaluation_depth": 1000,
            "max_bytes_before_external_group_by": 0,
            "max_bytes_before_external_sort": 0,
            "max_temporary_data_on_disk_size_for_query": 1_000_000,
            "allow_introspection_functions": 0,
            "allow_ddl": 0,
            "use_query_cache": 0,
            "log_queries": 0,
        }


LOWERED = frozenset(
    {"max_execution_time", "max_result_rows", "max_result_bytes", "max_memory_usage", "max_threads"}
)  # fmt: skip
"""Settings that may be made less than the limits; more, or 0 (none), stays at the limit."""
CHOSEN = re.compile(
    r"date_time_output_format|join_use_nulls|max_block_size|session_timezone|join_algorithm|"
    r"output_format_(json|csv|tsv|pretty|parquet|arrow|orc|decimal|native|binary|values|markdown|xml|avro|bson|msgpack|"
    r"tabseparated|write|sql_insert)_[a-z0-9_]+"
)
"""What changes how an answer looks, or is computed, and nothing else. output_format_schema, which writes a file, is
none of them."""
OURS = frozenset(
    {"query", "query_id", "database", "default_format", "user", "password", "session_id", "session_timeout",
     "session_check", "compress", "decompress", "enable_http_compression", "http_zlib_compression_level",
     "wait_end_of_query", "buffer_size", "client_protocol_version", "quota_key", "role", "close_session",
     "cancel_http_readonly_queries_on_client_close", "send_progress_in_http_headers",
     "http_headers_progress_interval_ms", "readonly", "add_http_cors_header", "date_time_input_format",
     "cast_string_to_dynamic_use_inference", "http_write_exception_in_output_format"}
)  # fmt: skip
"""Parameters of the interface itself, and settings that say nothing about reading."""
VALUE = re.compile(r"[A-Za-z0-9_+/.:,\- ]{0,100}")


def settings_of(asked: Mapping[str, str], limits: Limits, whole: bool) -> dict[str, int | str]:
    """The settings of a statement: the limits, and what was asked for within them. Errors: SqlError naming one that
    may not be set."""
    settings = limits.settings(whole)
    for name, value in asked.items():
        if name in OURS or name.startswith("param_"):
            continue
        if not VALUE.fullmatch(value):
            raise SqlError(BAD_ARGUMENTS, f"setting {name[:100]!r} has an invalid value")
        if name in LOWERED:
            settings[name] = _lowered(name, value, int(settings[name]))
        elif CHOSEN.fullmatch(name):
            settings[name] = value
        elif name not in settings or str(settings[name]) != value:
            raise SqlError(READONLY, f"setting {name[:100]!r} cannot be changed here", "Leave it out")
    return settings


def _lowered(name: str, value: str, limit: int) -> int:
    try:
        wanted = int(float(value))
    except (ValueError, OverflowError):
        raise SqlError(BAD_ARGUMENTS, f"setting {name!r} must be a number, found {value!r}") from None
    return min(wanted, limit) if wanted > 0 else limit


def set_clause(settings: Mapping[str, int | str]) -> str:
    """As text behind SET; values are numbers, or plain words in quotes."""
    return ", ".join(
        f"{name} = {value}" if isinstance(value, int) else f"{name} = '{value}'" for name, value in settings.items()
    )
