"""This very Python, with its paths, for one of our functions in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

_BEGIN = (
    "import sys; n = 3 + int(sys.argv[1]); sys.path[:] = sys.argv[n:]; "
    "from warehouse.this_python import call; call(*sys.argv[2:n])"
)
_asked_by = 0


def this_python(function: Callable[..., None], *arguments: str) -> list[str]:
    """The command line of a process that calls a module's function with these texts. Of the environment and of what
    lies in the working folder, it imports nothing."""
    paths = [path for path in sys.path if path and Path(path).exists()]
    return [sys.executable, "-I", "-S", "-c", _BEGIN, str(len(arguments)), name_of(function), *arguments, *paths]


def name_of(function: Callable[..., None]) -> str:
    """By which another process of this Python finds a module's function."""
    return f"{function.__module__}:{function.__qualname__}"


def named(name: str) -> Callable[..., None]:
    """The function of that name."""
    from importlib import import_module

    module, _, of_module = name.partition(":")
    function: Callable[..., None] = getattr(import_module(module), of_module)
    return function


def call(name: str, *arguments: str) -> None:
    """Entry point of the process."""
    global _asked_by

    _asked_by = os.getppid()
    named(name)(*arguments)


def asked_by() -> int:
    """The process that a person or a service manager began, and can end: this one, or the one that began this one."""
    return _asked_by if _asked_by == os.getppid() else os.getpid()
