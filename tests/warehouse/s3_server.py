"""A server that speaks as much of S3 as a backup needs: objects, uploads in parts, lists (https://docs.aws.amazon.com/AmazonS3)."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

KEY, SECRET = "ledger-key", "ledger-secret-4711"


@dataclass
class S3:
    """objects: by BUCKET/KEY.   fail_after: so many objects are accepted, then none."""

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    fail_after: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, data: bytes) -> bool:
        with self.lock:
            if self.fail_after is not None and len(self.puts) >= self.fail_after:
                return False
            self.puts.append(name)
            self.objects[name] = data
            return True

    def list(self, bucket: str, query: dict[str, list[str]]) -> str:
        """A page of two hundred keys, or of folders."""
        prefix, cut = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", [""])[0]
        keys, folders = [], set()
        for name in sorted(self.objects):
            key = name.partition("/")[2]
            if name.partition("/")[0] != bucket or not key.startswith(prefix):
                continue
            rest = key.removeprefix(prefix)
            if cut and cut in rest:
                folders.add(prefix + rest[: rest.index(cut) + 1])
            elif key > after:
                keys.append(key)
        more = len(keys) > 200
        keys = keys[:200]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[f'{bucket}/{key}'])}</Size>"
            "<LastModified>2026-11-01T00:00:00Z</LastModified><ETag>x</ETag></Contents>"
            for key in keys
        )
        folders_ = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        token = f"<NextContinuationToken>{escape(keys[-1])}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}<KeyCount>{len(keys)}</KeyCount>"
            f"{contents}{folders_}</ListBucketResult>"
        )


@contextmanager
def s3_server(bucket: str) -> Iterator[S3]:
    """One with an empty bucket, for the credentials KEY and SECRET."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def handle_any(self) -> None:
            body = self._body()
            if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
                self._error(403, "InvalidAccessKeyId")
                return
            where = urlsplit(self.path)
            name, query = unquote(where.path).removeprefix("/"), parse_qs(where.query, keep_blank_values=True)
            if name.partition("/")[0] != bucket:
                self._error(404, "NoSuchBucket")
            elif not name.partition("/")[2]:
                self._of_bucket(query, body)
            else:
                self._of_object(name, query, body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

        def _of_bucket(self, query: dict[str, list[str]], body: bytes) -> None:
            if "delete" in query:
                for one in ElementTree.fromstring(body).iter():
                    if one.tag.endswith("}Key") or one.tag == "Key":
                        found.objects.pop(f"{bucket}/{one.text}", None)
                self._answer("<DeleteResult/>")
            else:
                self._answer(found.list(bucket, query))

        def _of_object(self, name: str, query: dict[str, list[str]], body: bytes) -> None:
            upload = query.get("uploadId", [""])[0]
            if self.command == "POST" and "uploads" in query:
                found.parts[name] = {}
                self._answer(f"<InitiateMultipartUploadResult><UploadId>{escape(name)}</UploadId>"
                             "</InitiateMultipartUploadResult>")  # fmt: skip
            elif self.command == "PUT" and upload:
                found.parts[upload][int(query["partNumber"][0])] = body
                self._answer("", {"ETag": '"x"'})
            elif self.command == "PUT" or upload:
                data = b"".join(part for _, part in sorted(found.parts.pop(upload).items())) if upload else body
                if not found.put(name, data):
                    self._error(403, "AccessDenied")
                else:
                    self._answer("<CompleteMultipartUploadResult/>" if upload else "", {"ETag": '"x"'})
            elif self.command == "DELETE":
                found.objects.pop(name, None)
                self._answer("", status=204)
            elif name in found.objects:
                self._send(found.objects[name])
            else:
                self._error(404, "NoSuchKey")

        def _send(self, data: bytes) -> None:
            wanted = self.headers.get("Range", "")
            status, headers = 200, {"ETag": '"x"', "Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT"}
            if wanted and data:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                end = min(int(last or len(data) - 1), len(data) - 1)
                headers["Content-Range"] = f"bytes {first}-{end}/{len(data)}"
                status, data = 206, data[int(first) : end + 1]
            self._answer(data, headers, status)

        def _answer(self, body: str | bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
            data = body.encode() if isinstance(body, str) else body
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _error(self, status: int, code: str) -> None:
            self._answer(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", status=status)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                data = unchunked(self.rfile)
            else:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return unchunked(io.BytesIO(data)) if "aws-chunked" in self.headers.get("Content-Encoding", "") else data

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = S3(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def unchunked(file: BinaryIO) -> bytes:
    """Chunks, each after its size in hexadecimal; then lines of a trailer, and an empty one."""
    data = b""
    while size := int(file.readline().partition(b";")[0], 16):
        data += file.read(size)
        file.readline()
    while file.readline().strip():
        """The sum of what came."""
    return data
