"""The whole watch against a real HTTP server that breaks off, forgets, repeats itself and is slow."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.errors import CollectorError
from collectors.kubernetes.api import Api
from collectors.kubernetes.cluster import Cluster
from collectors.kubernetes.connection import Connection, KubernetesError
from collectors.kubernetes.follow import Backoff, Item, utc_now
from collectors.kubernetes.settings import Settings
from collectors.kubernetes.state import State
from collectors.kubernetes.watcher import Watcher
from collectors.readings import Collected
from tests.collectors.kubernetes.lives import Change, key, lives, present
from tests.collectors.kubernetes.make import admitted, bound, deleting, ended, node, pod, running, second
from tests.collectors.kubernetes.server import NODES, PODS, ApiServer, serving
from tests.collectors.kubernetes.test_claims import GPU, claim, claiming, slice_
from tests.collectors.kubernetes.test_cluster import check
from tests.draws import keep_seed, seldom
from tests.patience import PATIENCE_SECONDS, until

HERE = Settings(cluster="c1")
QUICK = Backoff(first=0.005, most=0.02)


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    at: int = 0

    def now(self) -> datetime:
        return second(self.at)


class Watching:
    """A watcher in a thread; rows as they come.

    reached: the version that it knows the pods up to.   kept: that which its state holds.
    """

    def __init__(
        self,
        url: str,
        state: Path | None = None,
        token: Callable[[], Connection] | None = None,
        clock: Clock | None = None,
        settings: Settings = HERE,
    ) -> None:
        self._settings = settings
        self.reached = self.kept = 0
        self._clock = clock
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.fail_sink = False
        self._connection = token() if token else Connection(url, token="t")
        self._state = state
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watching:
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._loop is not None and self._task is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - shown to the test
            self.error = error

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        api, state = Api(self._connection, watch_seconds=5), State(self._state, "c1")
        now = self._clock.now if self._clock else utc_now
        watcher = Seen(api, self._settings, state, self._sink, say=self.said.append, backoff=QUICK, now=now)
        watcher.watching = self
        try:
            await watcher.run()
        finally:
            await api.close()
            state.close()

    def _sink(self, collected: Collected) -> None:
        if self.fail_sink:
            raise CollectorError("sink", "is full")
        for record, rows in collected.rows.items():
            self.rows += [(record, row) for row in rows]

    def events(self) -> list[dict[str, Any]]:
        return [row for record, row in list(self.rows) if record == "events"]

    def until(self, done: Callable[[], Any]) -> None:
        until(done, lambda: (self.error, self.said[-3:], [row["event"] for row in self.events()]))


class Seen(Watcher):
    watching: Watching

    def _apply(self, cluster: Cluster, stream: Any, item: Item, heard_at: datetime) -> Collected:
        collected = super()._apply(cluster, stream, item, heard_at)
        self.watching.reached = int(cluster.version or 0)
        return collected

    def _save(self, cluster: Cluster) -> None:
        super()._save(cluster)
        self.watching.kept = int(cluster.version or 0)


@pytest.fixture
def api() -> Iterator[tuple[ApiServer, str]]:
    with serving() as found:
        yield found


def life(uid: str = "u") -> list[dict[str, Any]]:
    placed = admitted(bound(pod(uid), 5), 6)
    return [pod(uid), placed, running(placed, 10)]


def names(watching: Watching) -> list[str]:
    return [row["event"] for row in watching.events()]


def test_what_is_there_is_listed_and_what_happens_is_watched(api: tuple[ApiServer, str]) -> None:
    server, url = api
    server.apply(NODES, node())
    server.apply(PODS, life()[-1])
    server.apply(PODS, pod("cpu", gpus=0))
    with Watching(url) as watching:
        watching.until(lambda: names(watching) == ["submitted", "started"])
        server.apply(PODS, ended(life()[-1], 60))
        watching.until(lambda: len(names(watching)) == 3)
        server.delete(PODS, ended(life()[-1], 60))
        server.apply(PODS, life("v")[0])
        watching.until(lambda: len(names(watching)) == 4)
    assert names(watching) == ["submitted", "started", "finished", "submitted"]
    assert watching.error is None
    assert server.watches()[0] == "103"
    assert set(server.tokens) == {"Bearer t"}


def test_a_long_list_comes_in_pages_and_a_token_that_expires_begins_it_again(api: tuple[ApiServer, str]) -> None:
    server, url = api
    for number in range(1203):
        server.apply(PODS, pod(f"u{number:04}"))
    asked = iter(range(99))

    def forget(path: str, token: str) -> None:
        if path == PODS and token and next(asked) == 1:
            server.compact()

    server.page_hook = forget
    with Watching(url) as watching:
        watching.until(lambda: server.watches() and len(names(watching)) >= 1203)
        assert server.lists() == 2
    assert Counter(names(watching)) == {"submitted": 1203}


def test_a_watch_that_breaks_in_the_middle_of_a_line_goes_on_where_it_was(api: tuple[ApiServer, str]) -> None:
    server, url = api
    server.faults.cuts[PODS] = [3000, 700, 10, 0, 2500]
    with Watching(url) as watching:
        watching.until(lambda: server.watches())
        for number in range(20):
            server.apply(PODS, pod(f"u{number}"))
        watching.until(lambda: len(names(watching)) == 20)
    assert server.lists() == 1
    assert len(server.watches()) >= 5
    assert watching.said


@pytest.mark.parametrize("how", ["in the stream", "as an answer"])
def test_a_version_that_is_too_old_is_listed_again_and_what_ended_meanwhile_is_estimated(
    api: tuple[ApiServer, str], how: str, tmp_path: Path
) -> None:
    server, url = api
    server.apply(PODS, life("stays")[-1])
    server.apply(PODS, life("goes")[-1])
    state = tmp_path / "state"
    with Watching(url, state) as watching:
        watching.until(lambda: len(names(watching)) == 4)
        watching.until(server.watches)
    server.delete(PODS, life("goes")[-1])
    server.compact()
    if how == "as an answer":
        status = {"kind": "Status", "code": 410, "reason": "Gone", "message": "too old"}
        server.faults.answers[PODS] = [(410, status, {})]
    with Watching(url, state) as again:
        again.until(lambda: again.events())
        (row,) = again.events()
        assert (row["event"], row["allocation_id"], row["reason"]) == ("cancelled", "goes", "Deleted, end estimated")
        finding = next(row for record, row in again.rows if record == "findings")
        assert "1 pods ended unseen" in finding["message"]
    assert server.lists() == 2


def test_a_restart_goes_on_and_misses_no_deletion(api: tuple[ApiServer, str], tmp_path: Path) -> None:
    server, url = api
    server.apply(PODS, life()[-1])
    with Watching(url, tmp_path / "state") as watching:
        watching.until(lambda: names(watching) == ["submitted", "started"])
        watching.until(server.watches)
    server.delete(PODS, ended(deleting(life()[-1], 50), 55, 143))
    with Watching(url, tmp_path / "state") as again:
        again.until(lambda: names(again) == ["cancelled"])
        assert again.events()[0]["reason"] == "Deleted"
    assert server.lists() == 1  # the pods were not listed again


def test_rows_that_the_sink_did_not_take_come_again(api: tuple[ApiServer, str], tmp_path: Path) -> None:
    server, url = api
    server.apply(PODS, life()[-1])
    with Watching(url, tmp_path / "state") as watching:
        watching.until(lambda: len(names(watching)) == 2)
        watching.until(server.watches)
        watching.fail_sink = True
        server.apply(PODS, ended(life()[-1], 60))
        watching.until(lambda: watching.error)
    assert "sink: is full" in str(watching.error)
    with Watching(url, tmp_path / "state") as again:
        again.until(lambda: names(again) == ["finished"])


def test_busy_and_failing_answers_are_waited_out(api: tuple[ApiServer, str]) -> None:
    server, url = api
    server.faults.answers[PODS] = [
        (429, {"message": "too many requests"}, {"Retry-After": "0"}),
        (500, b"<html>", {}),
        (401, {"message": "Unauthorized"}, {}),
        (200, b"no json", {}),
        (200, {"kind": "List"}, {}),
        (503, {"message": "etcd leader changed"}, {}),
    ]
    server.apply(PODS, pod("u"))
    with Watching(url) as watching:
        watching.until(lambda: names(watching) == ["submitted"])
    assert any("too many requests" in line for line in watching.said)


def test_a_missing_right_is_one_line_that_says_which(api: tuple[ApiServer, str]) -> None:
    server, url = api
    server.apply(NODES, node())
    server.faults.answers[PODS] = [(403, {"kind": "Status", "message": "pods is forbidden"}, {})] * 40
    with Watching(url) as watching:
        watching.until(lambda: watching.error)
    assert isinstance(watching.error, KubernetesError)
    assert str(watching.error).endswith(
        "pods is forbidden. Next: a ClusterRole with get, list and watch on pods (docs/kubernetes.md)"
    )


def test_a_renewed_token_is_sent_with_the_next_request(api: tuple[ApiServer, str], tmp_path: Path) -> None:
    server, url = api
    token = tmp_path / "token"
    token.write_text("one")
    server.faults.cuts[PODS] = [1]
    with Watching(url, token=lambda: Connection(url, token_file=token)) as watching:
        watching.until(server.watches)
        token.write_text("two")
        server.apply(PODS, pod("u"))
        watching.until(lambda: names(watching) == ["submitted"])
    assert {"Bearer one", "Bearer two"} <= set(server.tokens)


def test_bytes_that_come_one_by_one_and_odd_characters_are_read_whole(api: tuple[ApiServer, str]) -> None:
    server, url = api
    server.faults.slow = True
    odd = "line\u2028end\u0085and\x0bmore"
    with Watching(url) as watching:
        watching.until(server.watches)
        server.apply(PODS, pod("u", annotations={"scheduling.volcano.sh/queue-name": odd}))
        watching.until(lambda: names(watching) == ["submitted"])
    assert watching.events()[0]["queue"] == odd
    assert watching.said == []


def test_bookmarks_carry_the_version_on_without_a_change(api: tuple[ApiServer, str], tmp_path: Path) -> None:
    server, url = api
    server.apply(PODS, life()[-1])
    with Watching(url, tmp_path / "state") as watching:
        watching.until(lambda: len(names(watching)) == 2)
        for _ in range(50):
            server.apply(NODES, node())
        watching.until(lambda: any(query.get("resourceVersion") for _, query in server.requests))
        watching.until(lambda: any(int(query.get("resourceVersion") or 0) > 140 for _, query in server.requests))
    state = State(tmp_path / "state", "c1")
    assert int(state.version) > 140
    state.close()
    with pytest.raises(CollectorError, match="is the state of cluster 'c1', not 'c2'"):
        State(tmp_path / "state", "c2")


def test_a_state_forgets_what_is_over_and_is_one_process_s(tmp_path: Path) -> None:
    state = State(tmp_path / "state", "c1")
    state.save("7", None, [("pod", "a", {"n": 1}), ("pod", "b", {"n": 2}), ("node", "a", {"n": 3})])
    state.save("8", None, [("pod", "a", None)])
    assert (state.version, state.objects("pod"), state.objects("node")) == ("8", {"b": {"n": 2}}, {"a": {"n": 3}})
    with pytest.raises(CollectorError, match="another process"):
        State(tmp_path / "state", "c1")
    state.close()
    (tmp_path / "other").write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(CollectorError, match="cannot hold the state"):
        State(tmp_path / "other", "c1")


def test_claims_and_slices_are_known_before_the_pods_that_need_them(api: tuple[ApiServer, str]) -> None:
    server, url = api
    group = "/apis/resource.k8s.io/v1beta1"  # the only version that this server has
    server.apply(PODS, running(admitted(bound(claiming("one"), 5), 6), 10))
    server.apply(f"{group}/resourceclaims", claim("one", ["gpu-0"]))
    server.apply(f"{group}/resourceslices", slice_([GPU]))
    server.apply(NODES, node())
    with Watching(url) as watching:
        watching.until(lambda: names(watching) == ["submitted", "started"])
        assert watching.events()[1]["device_id"] == "GPU-aa"
        watching.until(lambda: any(record == "devices" for record, _ in watching.rows))


@pytest.mark.parametrize("answer", [403, 404])
def test_a_server_that_starts_may_refuse_what_it_served_before(api: tuple[ApiServer, str], answer: int) -> None:
    """Until it has read its roles and its extensions."""
    server, url = api
    server.apply(NODES, node())
    server.apply(PODS, life()[-1])
    with Watching(url) as watching:
        watching.until(lambda: len(names(watching)) == 2 and len(server.watches()) == 1)
        asked = len(server.requests)
        server.down = (answer, {"kind": "Status", "message": "pods is forbidden"}, {})
        watching.until(lambda: len(server.requests) > asked + 20)
        server.apply(PODS, life("in between")[-1])
        server.delete(PODS, ended(life("in between")[-1], 60))
        server.down = None
        watching.until(lambda: len(names(watching)) == 5)
    assert names(watching)[2:] == ["submitted", "started", "finished"]
    assert (server.lists(), watching.error) == (1, None)


def test_a_right_that_is_taken_away_is_a_finding_and_its_return_needs_no_list(api: tuple[ApiServer, str]) -> None:
    server, url = api
    server.apply(PODS, life()[-1])
    with Watching(url) as watching:
        watching.until(lambda: len(names(watching)) == 2 and len(server.watches()) == 1)
        server.down = (403, {"kind": "Status", "message": "pods is forbidden"}, {})
        watching.until(lambda: "no_permission" in {row.get("finding") for _, row in list(watching.rows)})
        server.down = None
        server.apply(PODS, ended(life()[-1], 60))
        watching.until(lambda: len(names(watching)) == 3)
    assert server.lists() == 1


def test_the_position_on_an_empty_cluster_is_stored_at_once(api: tuple[ApiServer, str], tmp_path: Path) -> None:
    server, url = api
    server.bookmark_every = 60
    server.served |= {NODES, PODS}
    with Watching(url, tmp_path / "state", clock=Clock()) as watching:  # it stands: nothing is kept because of the time
        watching.until(server.watches)
        watching.until(lambda: watching.kept)
        copied = tmp_path / "as it was killed"  # a kill leaves what is in the file and its log
        for name in ("state", "state-wal"):
            shutil.copy(tmp_path / name, f"{copied}{name.removeprefix('state')}")
    server.apply(PODS, life()[-1])
    server.delete(PODS, ended(life()[-1], 60))
    with Watching(url, copied) as again:
        again.until(lambda: names(again) == ["submitted", "started", "finished"])
    assert server.lists() == 1


def test_a_server_that_was_set_back_is_listed_again(api: tuple[ApiServer, str], tmp_path: Path) -> None:
    """As after etcd was restored: its versions are before ours, and nothing would come until they are passed."""
    server, url = api
    server.version = 5000
    server.apply(PODS, life()[-1])
    with Watching(url, tmp_path / "state") as watching:
        watching.until(lambda: len(names(watching)) == 2 and server.watches())
    with serving() as (restored, other):
        restored.served |= {NODES, PODS}
        with Watching(other, tmp_path / "state") as again:
            again.until(lambda: names(again) == ["cancelled"])
    assert again.events()[0]["reason"] == "Deleted, end estimated"


class Stage:
    """A server, a watch that comes and goes, and the seconds that pass for both."""

    def __init__(self, server: ApiServer, url: str, state: Path) -> None:
        self.server, self._url, self._state = server, url, state
        self.clock = Clock()
        self._rows: list[dict[str, Any]] = []
        self._watching: Watching | None = None
        self.start()

    def start(self) -> None:
        self._watching = Watching(self._url, self._state, clock=self.clock)
        self._watching.__enter__()

    def stop(self) -> None:
        assert self._watching is not None
        self._watching.stop()
        assert self._watching.error is None
        self._rows += self._watching.events()
        self._watching = None

    def refuse(self, status: int) -> None:
        """From now on everything, and the watch has seen that."""
        self.server.refused.clear()
        self.server.down = (status, {"kind": "Status", "message": "not now"}, {"Retry-After": "0"})
        until(lambda: PODS in self.server.refused)

    def play(self, change: Change) -> None:
        self.clock.at = change.at
        (self.server.delete if change.deleted else self.server.apply)(PODS, change.object)

    def catch_up(self) -> None:
        self.server.down = None
        if self._watching is None:
            self.start()
        watching = self._watching
        assert watching is not None
        watching.until(lambda: watching.reached >= self.server.version)

    def rows(self) -> list[dict[str, Any]]:
        """Each once: a watch that is stopped may tell again what it told."""
        self.stop()
        return list({key(row): row for row in self._rows}.values())


@seldom(6, "random pod histories")
@pytest.mark.parametrize("number", range(3))
def test_random_pod_histories_are_reported_to_the_second_however_server_and_watch_fail(
    tmp_path: Path, number: int
) -> None:
    """The server refuses, is too busy, forgets, breaks off in the middle of a line and repeats itself; the watch is
    stopped and started. What no stamp tells is estimated then, and never later than it was."""
    seed = f"{keep_seed()} {number}"
    print(f"lives of {seed}")
    chance = random.Random(seed)
    log, held = lives(chance, 12)
    missed: set[str] = set()
    with serving() as (server, url):
        server.served |= {NODES, PODS}
        server.faults.repeat[PODS] = [chance.randint(0, 5) for _ in range(6)]
        server.faults.cuts[PODS] = [chance.randint(0, 9000) for _ in range(chance.randint(0, 12))]
        stage = Stage(server, url, tmp_path / "state")
        stage.catch_up()
        position = 0
        while position < len(log):
            how = chance.choice(["fine"] * 6 + ["stopped", 403, 404, 429, 503])
            part = log[position : position + (1 if how == "fine" else chance.randint(1, 8))]
            if how == "stopped":
                stage.stop()
            elif isinstance(how, int):
                stage.refuse(how)
            for change in part:
                stage.play(change)
            if how != "fine" and chance.random() < 0.3:
                server.compact()
                known = {change.uid for change in log[:position]}
                there = {str(each["metadata"]["uid"]) for each in present(log, position + len(part))}
                missed |= {change.uid for change in part} - known - there
            stage.catch_up()
            position += len(part)
        rows = stage.rows()
    assert {row["allocation_id"].split("/")[0] for row in rows} == held.keys() - missed
    check(rows, held, log[-1].at, estimated=True)
