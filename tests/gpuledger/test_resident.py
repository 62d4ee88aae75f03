"""What a server at rest gives back: pages of the engine's library, and nothing that was written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger.resident import as_in_their_files

MAPPED = """7f0000000000-7f0000010000 r--p 00000000 08:01 77 {library}
Size:                 64 kB
Rss:                  64 kB
Anonymous:             {anonymous} kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me sd
"""
ENGINE = "/opt/site-packages/chdb/_chdb.abi3.so"


@pytest.mark.parametrize(
    ("library", "anonymous", "mode", "taken"),
    [
        (ENGINE, 0, "r-xp", True),
        (ENGINE, 0, "r--p", True),
        ("/opt/site-packages/pyarrow/libarrow.so.2600", 0, "r-xp", True),
        (ENGINE, 4, "r--p", False),  # relocated: what is written there is nowhere else
        (ENGINE, 0, "rw-p", False),
        ("/opt/site-packages/pyarrow/libarrow_dataset.so.2600", 0, "r-xp", False),
        ("/usr/lib/libc.so.6", 0, "r-xp", False),
        ("[heap]", 0, "r--p", False),
        ("", 0, "r--p", False),
        ("/home/a b/chdb/_chdb.abi3.so", 0, "r-xp", True),
    ],
)
def test_what_is_as_in_its_file_and_large(library: str, anonymous: int, mode: str, taken: bool) -> None:
    before = MAPPED.format(library="/usr/lib/libm.so.6", anonymous=0)
    text = before + MAPPED.format(library=library, anonymous=anonymous).replace("r--p", mode) + before
    assert list(as_in_their_files(text)) == ([(0x7F0000000000, 0x7F0000010000)] if taken else [])


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says where libraries lie")
def test_the_engine_goes_on_with_less(tmp_path: Path) -> None:
    """In a process of its own: the engine has started and answered, gives back, and answers the same."""
    code = """
import re, sys
from gpuledger.resident import give_back
from warehouse.store import migrate, open_store

def of_files():
    return int(re.search(r"RssFile:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

with open_store("chdb://" + sys.argv[1]) as store:
    migrate(store)
    asked = "SELECT groupArray((number, toString(number), sqrt(number))) AS a FROM numbers(1000)"
    answers = [store.value(asked)]
    for _ in range(5):
        had = of_files()
        give_back()
        print(had - of_files())
        answers.append(store.value(asked))
    assert answers == answers[:1] * len(answers)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *_ = map(float, done.stdout.split())
    assert first > 50, done.stdout


@pytest.mark.parametrize(("given", "read"), [("", "lg_tcache_max:10"), ("lg_tcache_max:12", "lg_tcache_max:12")])
def test_the_engine_s_allocator_keeps_little_for_each_thread_unless_it_was_told_otherwise(
    tmp_path: Path, given: str, read: str
) -> None:
    """Before the engine is loaded: it reads that once."""
    code = """
import os, sys
from warehouse.store import open_store
assert "chdb" not in sys.modules
with open_store("chdb://" + sys.argv[1]) as store:
    print(os.environ["JE_MALLOC_CONF"], store.value("SELECT 7 AS n"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "JE_MALLOC_CONF"}
    if given:
        environment["JE_MALLOC_CONF"] = given
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == f"{read} 7\n"
    assert "jemalloc" not in done.stderr, "it knows the setting"
