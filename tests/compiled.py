"""Workers that begin without bytecode compile each a part of the tests, not each all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import AssertionState
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, get_cache_dir


def compile_share(config: pytest.Config, files: Sequence[Path]) -> int:
    """Writes what pytest reads instead of the files, as far as it is this worker's to write and not there yet; how many
    it wrote. To rewrite the assertions of all test files takes longer than everything else before the first test."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    written = 0
    for path in files[number::workers]:
        folder = get_cache_dir(path)
        cached = folder / f"{path.stem}{PYC_TAIL}"
        if _read_pyc(path, cached) is None:
            folder.mkdir(parents=True, exist_ok=True)
            source, code = _rewrite_test(path, config)
            written += _write_pyc(AssertionState(config, "rewrite"), code, source, cached)
    return written
