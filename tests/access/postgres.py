"""A PostgreSQL of the tests' own: a throw-away cluster on a socket in a folder, run by somebody who is not root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.patience import until

PASSWORD = "a secret of the cluster"


def binaries() -> Path | None:
    """Debian's newest server; None: not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@dataclass(frozen=True)
class Cluster:
    """folder: holds the socket, and the password in a file."""

    folder: Path

    @property
    def password_file(self) -> Path:
        return self.folder / "password"

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"access_{uuid.uuid4().hex[:8]}"
        with self.connection() as admin:
            admin.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return f"postgresql://ledger@/{name}?host={self.folder}"

    def connection(self) -> psycopg.Connection[Any]:
        where = {"host": str(self.folder), "user": "ledger", "dbname": "postgres", "password": PASSWORD}
        return psycopg.connect(**where, autocommit=True)


@contextlib.contextmanager
def cluster(server: Path) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a socket's path is short
    found = Cluster(folder)
    found.password_file.write_text(PASSWORD + "\n")
    root = os.geteuid() == 0
    who: dict[str, Any] = {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid} if root else {}
    if root:
        shutil.chown(folder, "postgres")
        found.password_file.chmod(0o644)
    data = str(folder / "data")
    made = ("-U", "ledger", "-A", "scram-sha-256", f"--pwfile={found.password_file}", "--no-sync", "-E", "UTF8")
    subprocess.run([server / "initdb", "-D", data, *made, "--locale=C"], check=True, capture_output=True, **who)
    quick = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=50")
    process = subprocess.Popen(
        [server / "postgres", "-D", data, "-k", folder, *quick], stderr=subprocess.DEVNULL, cwd="/", **who
    )
    try:

        def answers() -> bool:
            assert process.poll() is None, "PostgreSQL does not start"
            with contextlib.suppress(psycopg.OperationalError):
                found.connection().close()
                return True
            return False

        until(answers, "PostgreSQL does not start", every=0.05)
        yield found
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)
