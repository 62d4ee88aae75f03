"""Signs the webhooks that gpuledger posts to a site's own receivers.

The signature is HMAC-SHA256 over the timestamp, a dot and the body, in hex; a receiver compares it in constant time and
refuses timestamps that are more than a few minutes old:

    X-Gpuledger-Timestamp: 1790000000
    X-Gpuledger-Signature: sha256=<hex of hmac(secret, "1790000000." + body)>
"""

from __future__ import annotations

import hashlib
import hmac

TIMESTAMP, SIGNATURE = "X-Gpuledger-Timestamp", "X-Gpuledger-Signature"


def signed(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Headers that prove who sent the body, and when (seconds since the epoch)."""
    return {TIMESTAMP: str(timestamp), SIGNATURE: signature(secret, str(timestamp), body)}


def signature(secret: str, timestamp: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
