"""What was acknowledged is in the log, whatever happens to the server that took it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from collectors.receivers.assembler import Assembler
from collectors.receivers.log import Reading
from tests.billing.test_turn_lost import meanwhile
from tests.collectors.receivers.pushing import SENDERS, V1, receiver_process, receiving, snappy, write_v1
from tests.collectors.receivers.test_remote_write import MIB, memory, samples, util
from tests.draws import seldom
from tests.ingest.receiving import TOKEN, tokens_file
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served
from tests.warehouse.losing import lose_turns
from warehouse.store import open_store

COLUMNS = "interval_seconds, state, utilization, memory_used_bytes"


@seldom(6, "what was acknowledged outlives a kill and")
def test_what_was_acknowledged_outlives_a_kill_and_is_assembled_by_the_next_server(tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path, SENDERS)
    fresh_store(tmp_path / "store").close()
    process, url = receiver_process(f"chdb://{tmp_path}/store", tokens)
    pieces = [util([(15 * n, 10 + n)]) for n in range(40)] + [memory([(15 * n, n)]) for n in range(40)]

    def push(piece: int) -> bool:
        headers = {**V1, "Authorization": f"Bearer {TOKEN}"}
        body = snappy(write_v1([pieces[piece]]))
        try:
            return httpx.post(f"{url}/api/v1/write", content=body, headers=headers).status_code == 204
        except httpx.HTTPError:
            return False

    killer = threading.Timer(0.3, process.kill)
    try:
        acknowledged = {piece for piece in (0, 1) if push(piece)}
        killer.start()
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(push, range(len(pieces))))
        acknowledged |= {piece for piece, answer in enumerate(answers) if answer}
    finally:
        killer.join()
        process.kill()
        process.wait(PATIENCE_SECONDS)
    assert {0, 1} <= acknowledged

    with open_store(f"chdb://{tmp_path}/store") as store:
        with receiving(store, tokens) as after:
            after.assemble()
            found = {row[0]: row[1:] for row in samples(store, "utilization, memory_used_bytes")}
            for piece in acknowledged:
                row = found[15.0 * (piece % 40)]
                assert row[1:][piece // 40] == ((10 + piece) / 100 if piece < 40 else (piece - 40) * MIB)
            # What is remembered of the target is made again from the log: the interval tells.
            assert after.write(snappy(write_v1([util([(15 * 40, 90)])]))).status_code == 204
        with receiving(store, tokens) as again:
            again.assemble()
        # Killed between storing the rows and marking them: they are told again, and are the same.
        before = samples(store, COLUMNS)
        store.command("ALTER TABLE pushed_instants DELETE WHERE assembled SETTINGS mutations_sync = 2")
        with receiving(store, tokens) as once_more:
            once_more.assemble()
        assert samples(store, COLUMNS) == before


def test_a_sender_that_may_send_no_more_is_not_taken_at_its_old_word(tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path, SENDERS)
    with fresh_store(tmp_path / "store") as store, receiving(store, tokens) as pushed:
        assert pushed.write(snappy(write_v1([util([(0, 50), (15, 60)])]))).status_code == 204
        tokens.write_text(SENDERS.replace("name: agents", "name: others"))
        pushed.assemble()
        assert samples(store) == []


def test_of_two_servers_one_assembles_and_the_other_goes_on_where_it_stopped(tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path, SENDERS)
    with fresh_store(tmp_path / "store") as store, receiving(store, tokens) as one:
        idle, other = Assembler(one.receiver, one.log, 0.0), Assembler(one.receiver, one.log, 0.0, 0.0)

        def push(*instants: int) -> None:
            pieces = [util([(15 * n, n)]) for n in instants]
            assert one.write(snappy(write_v1(pieces))).status_code == 204

        def reported() -> list[tuple[float, float]]:
            return [(row[0], row[2]) for row in samples(store, "interval_seconds")]

        push(0, 1)
        one.assemble()
        push(2, 3)
        idle.run(store, threading.Event())
        assert reported() == [(0.0, 15.0), (15.0, 15.0)]
        for assembler, instants, many in ((other, (4, 5), 6), (one.assembler, (6, 7), 8)):
            push(*instants)
            assembler.run(store, threading.Event())
            assert reported() == [(15.0 * n, 15.0) for n in range(many)]


def test_who_lost_its_turn_stores_and_remembers_nothing_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What it knew of a target's units and devices would take the place of what another server learned since."""
    tokens, stop = tokens_file(tmp_path, SENDERS), threading.Event()
    fresh_store(tmp_path / "store").close()
    with (
        served(tmp_path / "store") as url,
        open_store(url) as first,
        open_store(url) as second,
        receiving(first, tokens) as one,
        receiving(second, tokens) as other,
    ):
        taken: list[object] = []
        monkeypatch.setattr(one.receiver, "take", lambda *of: taken.append(of))
        assert one.write(snappy(write_v1([util([(0, 50), (15, 60)])]))).status_code == 204

        def pass_of_another() -> None:
            lose_turns(second)
            other.assembler.run(second, stop)

        monkeypatch.setattr(Reading, "points", meanwhile(Reading.points, pass_of_another))
        one.assembler.run(first, stop)
        assert taken == []
        assert "no sign of life" in caplog.text
        assert len(samples(first)) == 2
