"""This very Python, with its paths, for one of our functions in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BEGIN = (
    "import sys; n = 3 + int(sys.argv[1]); sys.path[:] = sys.argv[n:]; "
    "from warehouse.this_python import call; call(*sys.argv[2:n])"
)
_asked_by = 0


def this_python(function: Callable[..., None], *arguments: str) -> list[str]:
    """The command line of a process that calls a module's function with these texts. Of the environment and of what
    lies in the working folder, it imports nothing."""
    paths = [path for path in sys.path if path and Path(path).exists()]
    named = f"{function.__module__}:{function.__qualname__}"
    return [sys.executable, "-I", "-S", "-c", _BEGIN, str(len(arguments)), named, *arguments, *paths]


def call(named: str, *arguments: str) -> None:
    """Entry point of the process."""
    global _asked_by
    from importlib import import_module

    _asked_by = os.getppid()
    module, _, name = named.partition(":")
    function: Any = getattr(import_module(module), name)
    function(*arguments)


def asked_by() -> int:
    """The process that a person or a service manager began, and can end: this one, or the one that began this one."""
    return _asked_by if _asked_by == os.getppid() else os.getpid()
