"""The one line of an error, in its reader's words."""

from __future__ import annotations

import pytest

from warehouse.errors import LedgerError


@pytest.mark.parametrize(
    ("where", "what", "said"),
    [
        ("jobs.txt", "cannot be read: [Errno 2] No such file or directory: 'jobs.txt'",
         "jobs.txt: cannot be read: No such file or directory. Next"),
        ("jobs.csv", "cannot be read ([Errno 21] Is a directory: 'jobs.csv')",
         "jobs.csv: cannot be read (Is a directory). Next"),
        ("--token-file t", "cannot be read ([Errno 13] Permission denied: 't')",
         "--token-file t: cannot be read (Permission denied). Next"),
        ("/b", "[Errno 28] No space left on device: '/spool/x'", "/b: No space left on device: /spool/x. Next"),
        ("http://db:8123", "[Errno 111] Connection refused", "http://db:8123: Connection refused. Next"),
        ("a row", "has 'it's' [sic]", "a row: has 'it's' [sic]. Next"),
    ],
)  # fmt: skip
def test_neither_python_s_number_nor_a_path_twice_is_in_an_error(where: str, what: str, said: str) -> None:
    error = LedgerError(where, what, "Next")
    assert str(error) == said
    assert error.what in said
