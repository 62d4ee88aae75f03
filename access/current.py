"""The current request's principal and access store: set by the gate, available wherever the request is handled, also
on worker threads.
"""

from __future__ import annotations

from contextvars import ContextVar

from access.principal import Principal
from access.store import AccessStore

_current: ContextVar[Principal | None] = ContextVar("principal", default=None)
_access: ContextVar[AccessStore | None] = ContextVar("access_store", default=None)


def set_current(principal: Principal | None, access: AccessStore | None = None) -> None:
    _current.set(principal)
    _access.set(access)


def current() -> Principal:
    """Errors: PermissionError if nobody is authenticated, which the gate rules out."""
    principal = _current.get()
    if principal is None:
        raise PermissionError("nobody is signed in")
    return principal


def current_access() -> AccessStore:
    """Errors: PermissionError outside of a request."""
    access = _access.get()
    if access is None:
        raise PermissionError("no request is being answered")
    return access
