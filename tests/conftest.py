"""Fixtures that tests of several packages share, and settings that make the suite fast (tests/README.md)."""

from __future__ import annotations

import functools
import math
import os
import random
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx._config
import httpx._transports.default
import hypothesis.core
import pytest
import typer.testing
from hypothesis import HealthCheck, settings

import warehouse.store
from access import secrets
from gpuledger.serve import collect_seldom
from tests.collectors.exporters.serving import Exporter, serving
from tests.draws import ALL, SEED, is_seldom, keep_seed
from tests.exhaustive import is_exhaustive
from tests.patience import PATIENCE_SECONDS
from tests.stores import CLUSTER_URL, Reused, ReusedOnCluster, engine_that_stays, fresh_store, keep_stores
from warehouse.store import Store

if TYPE_CHECKING:
    from tests.dashboards.site import Site

# Tables are as wide as they need to be, whatever the width of the terminal that the tests run in.
os.environ.pop("COLUMNS", None)

# Where the environment asks for no bytecode on disk, each worker and each process of a test would compile the same
# modules again: 1.8 CPU seconds instead of 0.7 for one command, 25 instead of 8 to collect the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test cuts the power, so what tests write may lie in memory: on a disk, its making and deleting is a tenth of the
# suite's CPU.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= 8 << 30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# Typer reads the annotations of a hundred commands, 0.15 CPU seconds, whenever a test runs one in this process.
typer.testing._get_command = functools.cache(typer.testing._get_command)

# httpx reads the authorities, 0.03 CPU seconds, for every request that is made without a client of its own.
httpx._transports.default.create_ssl_context = functools.cache(httpx._transports.default.create_ssl_context)

# A request of a test that names no time waits 5 s: on a machine that is busy, an honest answer may take longer.
for kind in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, kind, PATIENCE_SECONDS)

# No test cuts the power: the engine need not wait for the disk with each table that it makes.
warehouse.store.KEPT_BY_NONE += f", {warehouse.store.NOT_SYNCED}"

# A password's hash is made to cost 150 ms; those of tests guard nothing.
SCRYPT_N = secrets.SCRYPT_N
secrets.SCRYPT_N = 16

keep_stores()
keep_seed()

# How long an example takes is the machine's business; what it finds is ours.
settings.register_profile("gpuledger", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuledger")
hypothesis.core.global_force_seed = int(keep_seed())

REPO = Path(__file__).resolve().parent.parent
with (REPO / "pyproject.toml").open("rb") as _project:
    FLOORS: tuple[str, ...] = tuple(tomllib.load(_project)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
"""The packages that a wheel has."""
SHARED = REPO.parent / "shared"
"""Where the contracts' worked examples and the traces lie, if this checkout has them beside it."""


def pytest_report_header() -> str:
    if os.environ.get(ALL):
        return f"{ALL}: every case of lists that are drawn from"
    return f"cases drawn with {SEED}={keep_seed()} ({ALL}=1: every case)"


def pytest_collection_finish() -> None:
    """As in a server, exempts loaded modules from garbage collection, which took a sixth of the suite's CPU."""
    collect_seldom()
    take_any_time()


def take_any_time() -> None:
    """What a held push would change is computed to the end, however slow the machine; a test of the limit passes its
    own. Only where a test has loaded it: it costs 0.4 CPU seconds to import."""
    module = sys.modules.get("billing.held.effect")
    if module is not None:
        module.effect.__defaults__ = (math.inf,)


FIRST = (
    "test_a_life_on_two_shards",
    "test_killed_and_paused_servers",
    "test_golden_three_months",
    "test_the_documents_of_any_history",
    "test_facts_that_come_bit_by_bit",
    "test_a_program_on_two_nodes",
    "test_a_day_that_prometheus_pushes",
)
REUSED = ReusedOnCluster() if CLUSTER_URL in os.environ else Reused()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_seldom(item) or is_exhaustive(item.nodeid):
            item.add_marker("exhaustive")
    if CLUSTER_URL in os.environ:
        items[:] = [item for item in items if "store_of_all" in getattr(item, "fixturenames", ())]
    # Each step of the life begins with the books of the step before. What comes first stays with one worker; of what
    # comes later others steal, and would take all steps before theirs again. Nor does a dear test come last, when the
    # other workers have nothing left to do.
    items.sort(key=lambda item: next((n for n, name in enumerate(FIRST) if name in item.nodeid), len(FIRST)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if "store_of_all" not in getattr(item, "fixturenames", ()):
        REUSED.close()
    random.seed(f"{keep_seed()} of {item.nodeid}")


def pytest_sessionfinish() -> None:
    REUSED.close()
    if isinstance(REUSED, ReusedOnCluster):
        REUSED.drop()


@pytest.fixture
def store_of_all() -> Store:
    return REUSED.store()


@pytest.fixture
def store(store_of_all: Store) -> Store:
    """An empty embedded store with the schema, reused by all tests. A test that opens other stores, closes it or
    changes its schema needs `own_store`: a process can open only one at a time."""
    return store_of_all


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that the tests of a module fill together, or empty before each (`tests.stores.emptied`)."""
    with fresh_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """A device exporter, served over HTTP; its answer is set by attributes."""
    with serving() as fake:
        yield fake


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Store]:
    """A fresh embedded store with the schema in it."""
    with fresh_store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def engine_stays() -> Iterator[None]:
    """For tests that run many commands in this process (tests/stores.py)."""
    with engine_that_stays():
        yield


@pytest.fixture(scope="module")
def served_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that asks for sign-in, for all tests of a module; a store with two days of books."""
    from tests.dashboards.site import site  # Dash and the pages: 1 CPU second of a run that needs none

    with site(tmp_path_factory.mktemp("site")) as served:
        yield served
