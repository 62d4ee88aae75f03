"""Headers of answers that a browser saves as files."""

from __future__ import annotations

from urllib.parse import quote


def attachment(name: str) -> str:
    """Content-Disposition. A header is Latin-1, and a tenant's name may have any letters (RFC 6266)."""
    return f'attachment; filename="{name}"' if name.isascii() else f"attachment; filename*=UTF-8''{quote(name)}"
