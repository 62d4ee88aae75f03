"""Whoever asks at the moment: set by the gate for each request, seen by what answers it, on worker threads, too."""

from __future__ import annotations

from contextvars import ContextVar

from dashboards.access.principal import Principal

_current: ContextVar[Principal | None] = ContextVar("principal", default=None)


def set_current(principal: Principal | None) -> None:
    _current.set(principal)


def current() -> Principal:
    """Errors: PermissionError where nobody was let in, which the gate does not let happen."""
    principal = _current.get()
    if principal is None:
        raise PermissionError("nobody is signed in")
    return principal
