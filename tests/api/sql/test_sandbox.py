"""What a worker gives up, as the kernel would read it; and what is said where the kernel cannot take it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import chdb
import pyarrow
import pytest

from access.principal import ANYBODY
from api.sql.engine import Engine, Question
from api.sql.errors import SqlError
from api.sql.limits import Limits
from api.sql.process import program_folders
from api.sql.sandbox import OF_ITSELF, REFUSED, Isolation, filter_code
from warehouse.store import migrate, open_store

OWN = 4711
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def run(code: bytes, number: int, architecture: int, argument: int = 0) -> int:
    """The filter's answer to a system call, by the rules of the kernel's machine."""
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    data = {0: number, 4: architecture, 16: argument & 0xFFFFFFFF}
    at = loaded = 0
    while True:
        operation, if_true, if_false, value = steps[at]
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            loaded = data[value]
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[operation]
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_what_it_names_and_nothing_else(machine: str) -> None:
    which, architecture = MACHINES[machine]
    code = filter_code(machine, OWN)
    refused = {numbers[which] for numbers in REFUSED.values()} - {None}
    of_itself = {numbers[which] for numbers in OF_ITSELF.values()}
    clone, clone3 = (56, 220)[which], 435
    for number in range(600):
        answer = run(code, number, architecture, OWN)
        if number in refused:
            assert answer == EPERM, number
        elif number == clone3:
            assert answer == ENOSYS
        elif number != clone:
            assert answer == ALLOW, number
        if number in of_itself:
            assert run(code, number, architecture, OWN + 1) == EPERM
            assert run(code, number, architecture, -1) == EPERM
    assert run(code, clone, architecture, 0x00010000 | 0x100) == ALLOW  # a thread
    assert run(code, clone, architecture, 0x11) == EPERM  # a process
    other = MACHINES["aarch64" if machine == "x86_64" else "x86_64"][1]
    assert run(code, 0, other) == KILL


def test_the_filter_refuses_the_other_numbers_of_x86_64() -> None:
    code = filter_code("x86_64", OWN)
    for number in (41, 59, 0):
        assert run(code, number | 0x40000000, MACHINES["x86_64"][1]) == EPERM


def test_no_call_is_named_by_the_number_of_another() -> None:
    for which in (0, 1):
        numbers = [each[which] for each in (*REFUSED.values(), *OF_ITSELF.values()) if each[which] is not None]
        assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("lacks", [Isolation(0, True), Isolation(7, False)])
def test_a_machine_that_cannot_isolate_says_so_or_refuses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lacks: Isolation
) -> None:
    monkeypatch.setattr("api.sql.workers.isolation", lambda: lacks)
    with open_store("chdb://memory") as store:
        engine = Engine(store, Limits())
        monkeypatch.setenv("GPULEDGER_SQL_ISOLATION", "required")
        with pytest.raises(SqlError, match="cannot be isolated"), engine.ask_blocking(ANYBODY, Question("SELECT 1")):
            pass
        monkeypatch.delenv("GPULEDGER_SQL_ISOLATION")
        with engine.ask_blocking(ANYBODY, Question("SELECT 1")) as (_, pieces):
            assert list(pieces) == [b"1\n"]
    assert lacks.text() in caplog.text


def test_a_store_in_memory_is_copied_too() -> None:
    with open_store("chdb://memory") as store:
        migrate(store)
        engine = Engine(store, Limits())
        for number in range(3):
            with engine.ask_blocking(ANYBODY, Question("SELECT count() FROM slo_hours")) as (_, pieces):
                assert list(pieces) == [f"{number}\n".encode()]
            store.command("INSERT INTO slo_hours (definition, hour, run) SELECT toString(rand()), now(), 1")


def test_a_worker_may_open_its_program_and_no_more_of_a_checkout() -> None:
    readable = [Path(path) for path in program_folders()]
    for module in (chdb, pyarrow, json):
        assert any(Path(module.__file__ or "").is_relative_to(path) for path in readable)
    for path in (Path(__file__), Path.home(), Path("/etc/passwd"), Path("/proc/1/environ")):
        assert not any(path.is_relative_to(folder) for folder in readable)
