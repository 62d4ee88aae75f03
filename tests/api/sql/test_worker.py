"""The second fence alone: statements that nobody has checked, straight to a worker, on the real engine and kernel."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from access.principal import ANYBODY, Principal
from access.roles import Role
from api.sql.engine import Engine, Question
from api.sql.errors import SqlError, disagreement
from api.sql.limits import Limits
from api.sql.sandbox import isolation
from api.sql.workers import Workers
from tests.api.sql import attacks
from tests.api.sql.worker_attacks import ATTACKS
from tests.draws import drawn, keep_seed
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.errors import StoreError
from warehouse.store import EmbeddedStore, Store

CANARY = "canary-5f3a91"
"""In a file, in this process's environment, memory and descriptors, in people's data and in the audit."""
CLOSED = ("access_users", "access_tokens", "saved_queries", "anything_else")
LIMITS = Limits(rows=300_000, memory_bytes=500_000_000)
SHORT = replace(LIMITS, seconds=2)
"""For what is not meant to succeed."""
ENDS_SECONDS = 30
"""By itself a statement goes on for sixty."""
HEAVY = "SELECT sum(editDistance(concat(repeat('a',60000),toString(number)), repeat('b',60000))) FROM numbers(10000)"
SEVERE = {"http_max_tries": 1, "http_connection_timeout": 1, "connect_timeout": 1, "s3_connect_timeout_ms": 500,
          "connections_with_failover_max_tries": 1, "postgresql_connection_pool_retries": 0}  # fmt: skip
"""Settings that nobody may choose: so that what would try again for minutes gives up at once."""
isolated = pytest.mark.skipif(not isolation().is_whole, reason=f"this kernel has {isolation().text()}")


@dataclass(frozen=True)
class House:
    store: EmbeddedStore
    folder: Path

    @property
    def workers(self) -> Workers:
        return self.store.beside(Workers, lambda: Workers(self.store, 4, 10.0))

    def ask(self, text: str, who: Principal = ANYBODY, limits: Limits = LIMITS, **settings: str) -> bytes:
        with Engine(self.store, limits).ask_blocking(who, Question(text, "TSV", settings)) as (_, pieces):
            return b"".join(pieces)

    def unchecked(self, text: str, audit: bool = False, limits: Limits = LIMITS) -> bytes:
        """What a worker says to a text that no other fence has seen; an error as its text."""

        async def asked() -> bytes:
            streams = bool(re.match(r"(?i)\s*(select|with)\b", text))
            request = {
                "agreement": "SELECT 1", "text": text, "format": "TSV", "streams": streams, "protocol": 0,
                "encoding": "", "enough": 1, "params": {}, "settings": {**limits.settings(not streams), **SEVERE},
            }  # fmt: skip
            async with self.workers.turns.turn("x"), self.workers.leased(audit, None) as worker:
                try:
                    return b"".join([body async for _, body in worker.ask(request)])
                except SqlError as error:
                    return error.text().encode()

        return asyncio.run(asked())

    def pids(self) -> set[int]:
        return {worker.pid for worker in (*self.workers._idle, *self.workers._leased)}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with fresh_store(folder / "store") as store:
        assert isinstance(store, EmbeddedStore)
        store.command("SYSTEM STOP MERGES")
        for table in CLOSED:  # as a store has them that was not upgraded
            columns = ", ".join(f"{name} String" for name in ("name", "password", "id", "digest", "owner", "text"))
            store.command(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) ENGINE = MergeTree ORDER BY name")
            store.command(f"INSERT INTO {table} (name) VALUES ('{CANARY}')")
        store.command(f"INSERT INTO audit (at, actor, action) VALUES (now64(3), '{CANARY}', 'x')")
        push(store, 3)
        yield House(store, folder)


def push(store: Store, rows: int) -> None:
    """So many rows of quarantine, each another."""
    store.command(
        "INSERT INTO quarantine (record_type, source, row, reason, detail, raw) SELECT 'events', toString(rand64()), "
        f"number, 'no_time', '', '' FROM numbers({rows})"
    )


def tree(folder: Path) -> dict[str, str]:
    """What every file of a folder holds, but for the workers' own."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "/sql/workers/" not in str(path)
    }


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What is another file now; not of tables dropped before, whose files the engine deletes some minutes later."""
    dropped = {Path(path).stem.rpartition(".")[2] for path in before if "/metadata_dropped/" in path}
    changed = (path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return sorted(path for path in changed if not any(one in path for one in dropped))


@isolated
def test_what_the_check_refuses_reaches_nothing_without_it(house: House) -> None:
    """A twentieth of the check's attacks, others in each run. What they ask of the engine's own
    tables is answered, by an engine that knows nothing of the server."""
    secret, out = house.folder / "secret.txt", house.folder / "out"
    attacks.plant(house.store, secret)
    house.unchecked("SELECT 1")
    before = tree(house.folder)
    reached = []
    for attack in drawn(attacks.ATTACKS, 1 / 20):
        answer = house.unchecked(attacks.filled(attack, secret, out), limits=SHORT).decode(errors="replace")
        said = [one for one in attacks.CANARIES if one in answer]
        canaries = [one for one in said if one not in attack and (one != "leaked" or "system." not in attack)]
        if canaries:
            reached.append((attack, canaries, answer[:300]))
    assert reached == []
    assert not out.exists()
    assert changes(before, tree(house.folder)) == []


@isolated
def test_attacks_that_nobody_checked_reach_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_CANARY", CANARY)
    canary, out = house.folder / "canary.txt", house.folder / "out.csv"
    canary.write_text(CANARY)
    house.unchecked("SELECT 1")
    before = tree(house.folder)
    with canary.open(), socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        places = {"canary": canary, "pid": os.getpid(), "port": listener.getsockname()[1], "out": out,
                  "tree": house.folder / "store"}  # fmt: skip
        reached = []
        for attack in ATTACKS:
            text = attack
            for name, value in places.items():
                text = text.replace("{" + name + "}", str(value))
            answer = house.unchecked(text, limits=SHORT)
            if CANARY.encode() in answer or b"root:" in answer:
                reached.append((attack, answer[:500]))
        assert reached == []
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not out.exists()
    assert changes(before, tree(house.folder)) == []


def test_an_unchecked_statement_reads_the_documented_tables_alone(house: House) -> None:
    shown = house.unchecked("SELECT name FROM system.tables WHERE database = 'gpuledger'").decode().split()
    assert {"samples", "v_charges", "schema_migrations"} <= set(shown)
    assert not {*CLOSED, "audit", "touched_hours_of_samples"} & set(shown)
    assert "audit" in house.unchecked("SELECT name FROM system.tables", audit=True).decode().split()
    assert house.unchecked("SELECT count() FROM quarantine") == b'"TSV"3\n'


def test_a_worker_of_those_who_may_not_see_the_audit_cannot_open_its_copy(house: House) -> None:
    assert CANARY in house.unchecked("SELECT actor FROM audit", audit=True).decode()
    copies = house.folder / "store" / "sql" / "tables"
    house.unchecked("SELECT 1")
    for place, answer in (("open/quarantine", b'"TSV"3\n'), ("audit/audit", b"Permission denied")):
        counts = sorted((copies / place).rglob("count.txt"))
        assert counts
        for path in counts:
            assert answer in house.unchecked(f"SELECT file('{path}')")


def test_the_text_that_runs_has_to_mean_what_came(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.sql import statement as module

    checked = module.checked

    def other(*arguments: Any) -> Any:
        return replace(checked(*arguments), text="SELECT 2", asked="SELECT 2")

    monkeypatch.setattr(module, "checked", other)
    with pytest.raises(SqlError) as refused:
        house.ask("SELECT 1")
    assert refused.value.text() == disagreement().text()
    assert house.ask("SELECT   2 -- the same") == b"2\n"


def test_a_text_as_long_as_it_may_be_is_answered(house: House) -> None:
    text = f"SELECT 1 WHERE length('{'x' * 250_000}') > 1"
    assert house.ask(text, limits=Limits()) == b"1\n"


CODE = """
import os, sys
from pathlib import Path
from api.sql import sandbox
own, copies, canary, parent = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), os.getppid()
sandbox.step_back(1)
sandbox.limit_files(1000)
import ctypes, resource, signal, socket, subprocess, threading
some = next(copies.rglob("count.txt"))
sandbox.seal([copies, Path(sys.base_prefix, "lib"), Path("/proc/self")], [own])
os.chdir(own)
tries = {
    "read": lambda: canary.read_text(), "write": lambda: canary.write_text("x"), "list": lambda: os.listdir("/"),
    "environ": lambda: open(f"/proc/{parent}/environ").read(), "chmod": lambda: some.chmod(0),
    "utime": lambda: os.utime(some), "xattr": lambda: os.setxattr(some, "user.x", b"x"),
    "change": lambda: some.open("r+"), "truncate": lambda: os.truncate(some, 0), "remove": lambda: some.unlink(),
    "link": lambda: os.link(some, own / "link"), "symlink": lambda: os.symlink(canary, own / "symlink"),
    "take": lambda: some.rename(own / "taken"), "new": lambda: (copies / "new").write_text("x"),
    "tcp": lambda: socket.socket(), "unix": lambda: socket.socketpair(),
    "udp": lambda: socket.socket(type=socket.SOCK_DGRAM), "fork": lambda: os.fork(),
    "program": lambda: os.execv(sys.executable, ["python"]), "spawn": lambda: subprocess.run([sys.executable]),
    "signal": lambda: os.kill(parent, 0), "group": lambda: os.kill(-1, 0),
    "pidfd": lambda: os.pidfd_open(parent), "limits": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
    "affinity": lambda: os.sched_setaffinity(parent, {0}), "large": lambda: (own / "l").write_bytes(b"x" * 2000),
}
for name, attempt in tries.items():
    try:
        attempt()
        print(name, "succeeds")
    except OSError as error:
        print(name, error.errno)
(own / "mine").write_text("mine")
thread = threading.Thread(target=lambda: print("thread", some.read_text(), (own / "mine").read_text()))
thread.start()
thread.join()
os.kill(os.getpid(), 0)
sandbox.limit_memory(sandbox.memory_mapped() + 50_000_000)
try:
    bytearray(200_000_000)
    print("memory succeeds")
except MemoryError:
    print("memory 1")
print("nothing", ctypes.CDLL(None).ptrace(16, parent, 0, 0))
"""


@isolated
def test_code_of_any_kind_in_a_worker_reaches_nothing(house: House, tmp_path: Path) -> None:
    """As if a hole in the engine had let somebody run what they like."""
    canary = tmp_path / "canary"
    canary.write_text(CANARY)
    own = tmp_path / "own"
    own.mkdir()
    house.unchecked("SELECT 1")
    copies = house.folder / "store" / "sql" / "tables" / "open"
    before = tree(house.folder)
    ran = subprocess.run(
        [sys.executable, "-c", CODE, own, copies, canary],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    lines = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"\d+ mine", lines.pop("thread"))
    assert lines.pop("nothing") == "-1"
    assert lines.pop("large") == "27"  # EFBIG
    assert len(lines) == 27
    assert {name: said for name, said in lines.items() if said not in ("1", "13")} == {}
    assert changes(before, tree(house.folder)) == []
    assert canary.read_text() == CANARY


def test_a_worker_starts_with_nothing_of_the_server_s(house: House) -> None:
    house.unchecked("SELECT 1")
    for pid in house.pids():
        names = {line.partition(b"=")[0] for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
        assert names == {b"LC_ALL", b"TZ", b"HOME", b"TMPDIR", b"OPENBLAS_NUM_THREADS", b""}
        status = Path(f"/proc/{pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        threads = {
            re.search(r"Seccomp:\t(\d)", each.read_text())[1] for each in Path(f"/proc/{pid}/task").glob("*/status")
        }  # type: ignore[index]
        assert threads == {"2"}
        own = f"{house.folder}/store/sql/"
        others = [name for name in descriptors(pid) if not name.startswith(("pipe:", "anon_inode:", own))]
        assert [name for name in others if ".so" not in name and "/lib/" not in name and "/bin/" not in name] == []


def test_a_heavy_function_ends_at_its_deadline_and_takes_nobody_with_it(house: House) -> None:
    began = time.monotonic()
    with pytest.raises(SqlError) as refused:
        house.ask(HEAVY, limits=Limits(), max_execution_time="2")
    assert refused.value.code == 159
    assert time.monotonic() - began < ENDS_SECONDS
    assert house.ask("SELECT 1") == b"1\n"


@pytest.mark.parametrize(
    "text",
    ["SELECT groupArray(repeat('x', 1000000)) FROM numbers(5000)",
     "SELECT arrayStringConcat(arrayMap(x -> repeat('a', 1000000), range(3000)))",
     "SELECT a.number FROM numbers(30000000) AS a JOIN numbers(30000000) AS b ON a.number = b.number ORDER BY 1",
     "WITH range(60000000) AS r SELECT arraySort(x -> -x, r), arrayReverse(r)"],
)  # fmt: skip
def test_a_statement_that_wants_too_much_memory_ends_and_the_server_has_none_of_it(house: House, text: str) -> None:
    house.ask("SELECT 1")
    before, most, done = resident(os.getpid()), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            most = max([most, *(resident(pid) for pid in house.pids())])

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with pytest.raises(SqlError) as refused:
            house.ask(text, limits=Limits(seconds=600, memory_bytes=500_000_000))
    finally:
        done.set()
        watching.join()
    assert refused.value.code == 241, refused.value.text()
    assert resident(os.getpid()) - before < 50_000_000
    assert most < 500_000_000 + 900_000_000
    assert house.ask("SELECT 1") == b"1\n"


def test_a_process_that_takes_more_than_the_engine_counts_is_ended(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sql.process.MEMORY_BESIDE", -800_000_000)  # leaves 100 MB of the 500
    with pytest.raises(SqlError, match="the statement's process had") as refused:
        house.ask(HEAVY.replace("10000", "3000"), limits=Limits(seconds=600, memory_bytes=500_000_000))
    assert refused.value.code == 241


def descriptors(pid: int) -> list[str]:
    """What a process has open, but for what the engine's threads count themselves by. (It reads names of functions for
    its stack traces from programs and libraries.)"""
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(path.readlink()))
    return sorted(name for name in found if not name.startswith(f"/proc/{pid}/"))


def resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    return 0


def test_a_statement_sees_what_was_written_before_it(house: House) -> None:
    """Whatever was done to the tables: rows, merges, dropped partitions, tables that traded places."""
    store, chance = house.store, random.Random(f"{keep_seed()} of what is written")
    counts = "SELECT (SELECT count() FROM quarantine), (SELECT count() FROM slo_hours)"
    store.create_like("spare", "slo_hours")
    for _ in range(25):
        step = chance.randrange(5)
        match step:
            case 0 | 1:
                push(store, chance.randrange(1, 9))
            case 2:
                store.command("INSERT INTO slo_hours (hour, run) VALUES (now() + rand() % 1000, 1)")
            case 3:
                store.exchange("spare", "slo_hours")
            case 4:
                store.command(f"TRUNCATE TABLE {chance.choice(['quarantine', 'slo_hours'])}")
        row = store.rows(counts)[0]
        assert house.ask(counts).decode().split() == [str(value) for value in row.values()], step
    store.command("DROP TABLE spare")
    push(store, 3)


def test_a_copy_that_finds_no_room_is_an_error_of_the_store(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: of a full disk it was said that the output is incomplete."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    push(house.store, 1)
    monkeypatch.setattr("api.sql.snapshot.link_folder", full)
    with pytest.raises(StoreError, match=r"cannot be linked: No space left on device\. Free some space on its disk"):
        house.ask("SELECT count() FROM quarantine")
    monkeypatch.undo()
    assert int(house.ask("SELECT count() FROM quarantine")) > 0


def test_copies_are_whole_while_parts_are_written_merged_and_removed(house: House) -> None:
    store, stop = house.store.another(), threading.Event()
    house.store.command("TRUNCATE TABLE refused_claims")

    def churn() -> None:
        while not stop.is_set():
            store.command("INSERT INTO refused_claims (cluster) SELECT 'c' FROM numbers(10)")
            store.command("TRUNCATE TABLE refused_claims")

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        for _ in range(10):
            assert house.ask("SELECT count(), countIf(cluster = 'c') FROM refused_claims") in (b"0\t0\n", b"10\t10\n")
    finally:
        stop.set()
        churning.join(PATIENCE_SECONDS)
        store.close()


def test_thirty_statements_leave_nothing_behind(house: House) -> None:
    def there() -> Counter[str]:
        folders = list((house.folder / "store" / "sql").glob("workers/*"))
        copies = list((house.folder / "store" / "sql").glob("tables/*/*/*"))
        counted = {"threads": threading.active_count(), "workers": len(folders), "copies": len(copies)}
        return Counter(descriptors(os.getpid())) + Counter(counted)

    for _ in range(3):
        house.ask("SELECT count() FROM quarantine")
    before, pids = there(), house.pids()
    for number in range(30):
        if number % 5 == 0:
            push(house.store, 1)
        house.ask("SELECT count() FROM quarantine")
    # A thread that has answered may take a moment to end; one of another test may end meanwhile.
    until(lambda: not there() - before, missing=lambda: str(there() - before))
    assert house.pids() == pids


def test_a_killed_worker_is_replaced(house: House) -> None:
    house.ask("SELECT 1")
    for worker in list(house.workers._idle):
        os.kill(worker.pid, signal.SIGKILL)
        worker._popen.wait()
    assert house.ask("SELECT 1") == b"1\n"

    def kill() -> None:
        until(lambda: house.workers._leased)
        time.sleep(0.3)
        for worker in list(house.workers._leased):
            os.kill(worker.pid, signal.SIGKILL)

    threading.Thread(target=kill).start()
    with pytest.raises(SqlError, match="process ended"):
        house.ask(HEAVY, limits=Limits(seconds=600))
    assert house.ask("SELECT 1") == b"1\n"


def test_one_person_s_statements_leave_a_place_for_another_s(house: House) -> None:
    async def both() -> None:
        engine = Engine(house.store, Limits(seconds=600))

        async def heavy() -> None:
            with contextlib.suppress(SqlError):
                async with engine.ask(Principal("ben", frozenset({Role.analyst})), Question(HEAVY)) as answer:
                    async for _ in answer.pieces:
                        pass

        asked = [asyncio.ensure_future(heavy()) for _ in range(8)]
        while len(house.workers.turns._begins) < 5:  # three of the eight run
            await asyncio.sleep(0.01)
        async with asyncio.timeout(PATIENCE_SECONDS), house.workers.turns.turn("ann"):
            assert len(house.workers.turns._begins) >= 1
        for task in asked:
            task.cancel()
        await asyncio.wait(asked)

    asyncio.run(asyncio.wait_for(both(), 3 * PATIENCE_SECONDS))
    until(lambda: not house.workers._leased and not house.workers.turns._begins)


SERVER = """
import sys, time
from access.principal import ANYBODY
from api.sql.engine import Engine, Question
from api.sql.limits import Limits
from api.sql.workers import Workers
from warehouse.store import open_store
store = open_store(sys.argv[1])
with Engine(store, Limits()).ask_blocking(ANYBODY, Question("SELECT 1")) as (_, pieces):
    list(pieces)
print(*(worker.pid for worker in store.beside(Workers, None)._idle), flush=True)
if len(sys.argv) > 2:
    with Engine(store, Limits()).ask_blocking(ANYBODY, Question(sys.argv[2])) as (_, pieces):
        list(pieces)
time.sleep(600)
"""


def test_no_worker_outlives_a_killed_server_and_the_next_one_clears_up(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    script = [sys.executable, "-c", SERVER, f"chdb://{folder}", HEAVY]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as server:
        assert server.stdout is not None
        pids = [int(pid) for pid in server.stdout.readline().split()]
        time.sleep(0.5)
        server.kill()
    assert pids
    until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], within=ENDS_SECONDS)
    left = set((folder / "sql" / "workers").iterdir())
    assert left
    with subprocess.Popen(script[:4], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as server:
        assert server.stdout is not None
        assert server.stdout.readline().split()
        assert not left & set((folder / "sql" / "workers").iterdir())
        server.kill()
