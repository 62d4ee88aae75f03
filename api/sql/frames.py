"""Messages between a worker and the server over two pipes: a kind, a length, and that many bytes.

server -> worker   ATTACH [tables that went, statements that make the new ones]     STATEMENT {...}     STOP
worker -> server   READY {...}     ATTACHED     FORMAT name, PIECE bytes ..., END     ERROR {code, what, next_step}
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Any

HEAD = struct.Struct(">BI")
LONGEST_PIECE = 1 << 20


class Kind(IntEnum):
    attach = 1
    statement = 2
    stop = 3
    ready = 4
    attached = 5
    format = 6
    piece = 7
    end = 8
    error = 9


def frame(kind: Kind, content: Any = None) -> bytes:
    """One frame. content: bytes as they are, anything else as JSON."""
    body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
    return HEAD.pack(kind, len(body)) + body
