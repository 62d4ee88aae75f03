"""Hashes secrets for storage: tokens with SHA-256, passwords with scrypt.

A token has 256 random bits, so a plain hash is enough, as for senders. A password has not; scrypt (RFC 7914) makes each
guess cost memory, and it is in the standard library: argon2 would be one more compiled dependency for the few users at
sites that are too small for single sign-on.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import unicodedata

PREFIX = "gpl"
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 15, 8, 3
"""32 MiB and some 150 ms a guess (OWASP's cheat sheet names these among its equal choices)."""
MEMORY_BYTES = 64 << 20
LONGEST_PASSWORD = 1024


def new_token() -> tuple[str, str]:
    """A token's public id and its text, such as gpl_3f2a..._..."""
    public = secrets.token_hex(6)
    return public, f"{PREFIX}_{public}_{secrets.token_urlsafe(32)}"


def digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).hexdigest()


def same(one: str, other: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def hash_password(password: str) -> str:
    """As scrypt$N$r$p$salt$key."""
    salt = secrets.token_bytes(16)
    key = _scrypt(password, salt, SCRYPT_N, SCRYPT_R, SCRYPT_P)
    texts = (base64.b64encode(part).decode() for part in (salt, key))
    return "$".join(("scrypt", str(SCRYPT_N), str(SCRYPT_R), str(SCRYPT_P), *texts))


def matches(password: str, stored: str) -> bool:
    """Whether the password matches the hash. With an empty hash (no such user) it takes as long, and is False."""
    kind, *parts = stored.split("$")
    if kind != "scrypt" or len(parts) != 5 or len(password) > LONGEST_PASSWORD:
        _scrypt("", b"nobody's salt...", SCRYPT_N, SCRYPT_R, SCRYPT_P)
        return False
    n, r, p = (int(part) for part in parts[:3])
    salt, key = (base64.b64decode(part) for part in parts[3:])
    return hmac.compare_digest(_scrypt(password, salt, n, r, p), key)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    text = unicodedata.normalize("NFKC", password).encode()
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=MEMORY_BYTES, dklen=32)
