"""`gpuledger watch` as a user runs it, against a real API server and real files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from billing.close import close
from gpuledger.cli import run
from gpuledger.commands import watch
from tests.collectors.kubernetes.make import admitted, bound, deleting, ended, node, pod, running
from tests.collectors.kubernetes.make_queues import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    WORKLOADS,
    cluster_queue,
    local_queue,
    workload,
)
from tests.collectors.kubernetes.server import NODES, PODS, ApiServer, serving
from tests.collectors.kubernetes.test_claims import SHARED, claiming, consuming, slice_
from tests.draws import seldom
from tests.ingest.receiving import TOKEN, receiving, tokens_file
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.store import Store, open_store

pytestmark = seldom(6, "all of watch command")

RUN = "import typer, sys; from gpuledger.cli import run; from gpuledger.commands import watch\n" \
      "app = typer.Typer(); app.callback()(lambda: None); watch.register(app); run(app, sys.argv[1:])"  # fmt: skip


def command(*arguments: str) -> int:
    app = typer.Typer()
    app.callback()(lambda: None)
    watch.register(app)
    with pytest.raises(SystemExit) as done:
        run(app, ["watch", *arguments])
    return int(done.value.code or 0)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ApiServer, list[str]]]:
    """A server and the options that reach it; what a run remembers lies below tmp_path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving() as (server, url):
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield server, ["kubernetes", "--cluster", "c1", "--kubeconfig", str(path)]


def life() -> list[dict[str, Any]]:
    first = pod("u", labels={"team": "physics"})
    placed = admitted(bound(first, 5), 6)
    return [first, placed, running(placed, 10)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_once_tells_what_is_new_since_the_last_time(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = cluster
    out = tmp_path / "rows.jsonl"
    options = [*options, "--once", "--out", str(out), "--tenant-label", "team"]
    server.apply(NODES, node())
    server.apply(PODS, life()[-1])
    assert command(*options) == 0
    assert [(row["record"], row["event"], row["tenant"], row["ts"]) for row in lines(out)] == [
        ("events", "submitted", "physics", "2026-10-01T08:00:00.000Z"),
        ("events", "started", "physics", "2026-10-01T08:00:05.000Z"),
    ]
    assert "kubernetes: events 2" in capsys.readouterr().err
    server.apply(PODS, ended(life()[-1], 60))
    assert command(*options) == 0
    assert [row["event"] for row in lines(out)] == ["submitted", "started", "finished"]
    assert command(*options) == 0
    assert "kubernetes: nothing new" in capsys.readouterr().err


def test_queues_of_a_scheduler_are_read_where_they_are_asked_for(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = cluster
    server.apply(WORKLOADS, workload("w"))
    server.apply(CLUSTER_QUEUES, cluster_queue())
    server.apply(LOCAL_QUEUES, local_queue())
    assert command(*options, "--once", "--out", str(tmp_path / "without")) == 0
    assert not (tmp_path / "without").exists() or lines(tmp_path / "without") == []
    assert command(*options, "--once", "--out", str(tmp_path / "with"), "--queues", "kueue", "--queues", "volcano") == 0
    found = lines(tmp_path / "with")
    assert [(row["queue"], row["gpus"]) for row in found if row["record"] == "events"] == [("gpus", 2.0)]
    levels = {row["metric"] for row in found if row["record"] == "service_levels"}
    assert levels == {"queue_guaranteed_gpus", "queue_held_gpus", "queue_limit_gpus"}
    said = capsys.readouterr().err
    for kind in ("queues", "podgroups"):
        assert said.count(f"/apis/scheduling.volcano.sh/v1beta1/{kind} is not served") == 1


def test_standard_output_gets_rows_alone_and_everything_each_time(
    cluster: tuple[ApiServer, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = cluster
    server.apply(PODS, life()[0])
    for _ in range(2):
        assert command(*options, "--once", "--out", "-") == 0
        assert [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()] == ["submitted"]


def test_the_store_gets_events_once_and_nodes_take_its_devices_with_them(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path, own_store: Store
) -> None:
    server, options = cluster
    url = own_store.url
    own_store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, state) VALUES "
        "('2026-10-01 00:00:00', 'c1', 'n1', 'GPU-a', 'nvidia', 'A100', 1, 'available')"
    )
    own_store.close()
    server.apply(NODES, node(ready="False", ready_at=300))
    server.apply(PODS, life()[-1])
    for _ in range(2):
        assert command(*options, "--once", "--store", url) == 0
        next(tmp_path.rglob("*.state")).unlink()  # as if nothing had been remembered: the store knows the keys
    with open_store(url) as opened:
        events = opened.rows("SELECT event, tenant, gpus, node FROM events ORDER BY ts, event")
        assert [(row["event"], row["tenant"], row["gpus"], row["node"]) for row in events] == [
            ("submitted", "chem", 1.0, ""),
            ("started", "chem", 1.0, "n1"),
        ]
        devices = opened.rows("SELECT toString(ts) AS ts, toString(state) AS state, model FROM devices ORDER BY ts")
        assert [(row["ts"], row["state"], row["model"]) for row in devices] == [
            ("2026-10-01 00:00:00.000", "available", "A100"),
            ("2026-10-01 08:05:00.000", "unavailable", "A100"),
        ]


def test_what_a_server_is_told_closes_to_the_gpu_hours_that_the_pods_held(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path, store: Store
) -> None:
    server, options = cluster
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, state) VALUES "
        "('2026-10-01 00:00:00', 'c1', 'n1', 'GPU-a', 'nvidia', 'A100', 7, 'available'), "
        "('2026-10-01 00:00:00', 'c1', 'n1', 'GPU-b', 'nvidia', 'A100', 7, 'available'), "
        "('2026-10-01 00:00:00', 'c1', 'n1', 'GPU-c', 'nvidia', 'A100', 7, 'available')"
    )
    asks: dict[str, dict[str, int]] = {"whole": {"nvidia.com/gpu": 2}, "slices": {"nvidia.com/mig-1g.10gb": 2}}
    for tenant, resources in asks.items():
        first = pod(f"u-{tenant}", resources=resources, labels={"team": tenant})
        started = running(admitted(bound(first, 0), 0), 10)
        server.apply(PODS, ended(started, 7200))
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with receiving(store, tokens_file(tmp_path)) as served:
        to = ["--url", served.url, "--token-file", str(token)]
        assert command(*options, "--once", "--tenant-label", "team", *to) == 0
    close(store, until=datetime(2026, 10, 1, 12, tzinfo=UTC), now=datetime(2026, 10, 2, tzinfo=UTC))
    held = store.rows(
        "SELECT tenant, sum(unmetered_unit_ms) / 3600000 / 7 AS hours FROM ledger_entries "
        "WHERE tenant != '' GROUP BY tenant ORDER BY tenant"
    )
    assert [(row["tenant"], round(row["hours"], 6)) for row in held] == [
        ("slices", round(2 / 7 * 2, 6)),
        ("whole", 4.0),
    ]


def test_claims_on_parts_of_a_device_and_pods_that_share_a_claim_close_to_their_shares(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path, store: Store
) -> None:
    """20 of 80 GiB by one claim, 40 by another that two pods hold for four hours, the second from the third hour on."""
    server, options = cluster
    group = "/apis/resource.k8s.io/v1"
    server.apply(NODES, node())
    server.apply(f"{group}/resourceslices", slice_([SHARED]))
    server.apply(f"{group}/resourceclaims", consuming("alone", "s1", memory="20Gi"))
    server.apply(f"{group}/resourceclaims", consuming("both", "s2", memory="40Gi"))
    (tmp_path / "token").write_text(TOKEN)
    with receiving(store, tokens_file(tmp_path)) as served:
        to = ["--tenant-label", "team", "--once", "--url", served.url, "--token-file", str(tmp_path / "token")]
        lives = []
        for tenant, claim, at in (("one", "alone", 0), ("first", "both", 0), ("second", "both", 7200)):
            first = claiming(claim, labels={"team": tenant})
            first["metadata"] |= {"uid": f"u-{tenant}", "name": tenant}
            lives.append(running(admitted(bound(first, at), at), at))
        for life_ in lives:
            server.apply(PODS, life_)
        assert command(*options, *to) == 0
        for life_ in lives:
            server.apply(PODS, ended(life_, 14_400))
        assert command(*options, *to) == 0
    close(store, until=datetime(2026, 10, 1, 12, tzinfo=UTC), now=datetime(2026, 10, 2, tzinfo=UTC))
    held = store.rows(
        "SELECT tenant, sum(unmetered_unit_ms) / 3600000 / any(device_units) AS hours FROM ledger_entries "
        "WHERE tenant != '' GROUP BY tenant ORDER BY tenant"
    )
    assert [(row["tenant"], row["hours"]) for row in held] == [("first", 1.5), ("one", 1.0), ("second", 0.5)]


def test_through_a_server_a_nodes_devices_go_with_it_as_far_as_the_sender_may_know_them(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    server, options = cluster
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, state) VALUES "
        "('2026-10-01 00:00:00', 'c1', 'n1', 'GPU-a', 'nvidia', 'A100', 7, 'available'), "
        "('2026-10-01 00:00:00', 'c2', 'n1', 'GPU-b', 'nvidia', 'A100', 7, 'available')"
    )
    server.apply(NODES, node(ready="Unknown", ready_at=300))
    (tmp_path / "token").write_text(TOKEN)
    tokens = tokens_file(tmp_path)
    may = tokens.read_text()
    with receiving(store, tokens) as served:
        to = ["--url", served.url, "--token-file", str(tmp_path / "token")]
        for text, count in ((may.replace("inventory: true", "inventory: false"), 0), (may, 1)):
            tokens.write_text(text)
            assert command(*options, "--once", *to) == 0
            found = store.rows("SELECT device_id, toString(ts) AS ts FROM devices WHERE state = 'unavailable'")
            assert len(found) == count
        assert found == [{"device_id": "GPU-a", "ts": "2026-10-01 08:05:00.000"}]
        assert "devices of c1 cannot be read" in caplog.text


def test_an_inventory_in_a_file_stands_in_for_the_stores(cluster: tuple[ApiServer, list[str]], tmp_path: Path) -> None:
    server, options = cluster
    server.apply(NODES, node(ready="False", ready_at=300))
    devices = tmp_path / "devices.jsonl"
    row = {"record": "devices", "ts": "2026-10-01T00:00:00.000Z", "node": "n1", "device_id": "GPU-a", "model": "A100"}
    finding = '{"record": "findings", "message": "a\u2028b"}'
    devices.write_text(json.dumps({**row, "state": "available"}) + f"\n{finding}\n", "utf-8")
    out = tmp_path / "rows.jsonl"
    assert command(*options, "--once", "--out", str(out), "--inventory", str(devices)) == 0
    (found,) = lines(out)
    assert (found["device_id"], found["state"], found["ts"]) == ("GPU-a", "unavailable", "2026-10-01T08:05:00.000Z")
    for wrong in (
        b"nonsense",
        b'{"node": "n1", "device_id": "\xff"}',
        b'{"node": "n1", "device_id": "a", "units": "x"}',
    ):
        devices.write_bytes(wrong)
        assert command(*options, "--once", "--out", str(out), "--inventory", str(devices)) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kubernetes", "--kubeconfig", "none"], "--cluster: the cluster has no name"),
        (["kubernetes", "--cluster", "c", "--kubeconfig", "none"], "none: cannot be read"),
        (["slurm", "--cluster", "c", "--tenant", "shoe"], "shoe: not a word of Slurm's. There are: account"),
        (["slurm", "--cluster", "c", "--zone", "Mars/Base"], "no such time zone"),
        (["slurm", "--cluster", "c", "--out", "a", "--url", "b"], "rows go to one place"),
        (["slurm", "--cluster", "c", "--out", "-", "--rest", "http://x"], "Next: --state FILE, or --file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command(*arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line


def test_a_server_that_is_away_ends_a_single_look_in_one_line(
    cluster: tuple[ApiServer, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = cluster
    server.down = (403, {"message": "no rights on this"}, {})
    assert command(*options, "--once", "--out", "-") == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert "no rights on this. Next: a ClusterRole" in said[-1]


def test_a_single_run_whose_rows_no_server_takes_says_where_they_wait_and_exits_2(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file, token = tmp_path / "jobs.txt", tmp_path / "token"
    file.write_text(sacct_text())
    with receiving(store, tokens_file(tmp_path)) as served:
        run = ["slurm", "--cluster", "c1", "--file", str(file), "--url", served.url, "--token-file", str(token)]
        assert command(*run) == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert re.search(r"not everything was delivered: \d+ rows wait in \S+-spool: .*token: cannot be read", said)
        assert said.endswith("The next run sends it first")
        token.write_text(TOKEN)
        assert command(*run) == 0
    assert [row["event"] for row in store.rows("SELECT event FROM events ORDER BY ts")] == [event for event, _ in LIFE]


def sacct_text() -> str:
    """One job of an hour on two GPUs, as sacct prints it."""
    from collectors.slurm.sacct import FORMAT

    values = {
        "JobIDRaw": "7", "JobID": "7", "Cluster": "s1", "Account": "bio", "User": "ada", "State": "COMPLETED",
        "ExitCode": "0:0", "Submit": "2026-10-01T08:00:00", "Eligible": "2026-10-01T08:00:00",
        "Start": "2026-10-01T08:01:00", "End": "2026-10-01T09:01:00", "AllocTRES": "cpu=8,gres/gpu=2,node=1",
        "ReqTRES": "cpu=8,gres/gpu=2,node=1", "NodeList": "g1", "Partition": "gpu", "QOS": "normal",
    }  # fmt: skip
    columns = [column.split("%")[0] for column in FORMAT.split(",")]
    return "|".join(columns) + "\n" + "|".join(values.get(column, "") for column in columns) + "\n"


LIFE = [("submitted", "bio"), ("started", "bio"), ("finished", "bio")]


def test_a_text_of_sacct_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "sacct.txt"
    path.write_text(sacct_text())
    assert command("slurm", "--cluster", "s1", "--file", str(path), "--out", "-") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["event"], row["tenant"]) for row in found] == LIFE


@pytest.mark.parametrize("text", ["", "\n", "{", "JobId=7 JobName=x\n   JobState=RUNNING\n"])
def test_a_file_that_holds_nothing_to_read_says_so(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    assert command("slurm", "--cluster", "s1", "--file", str(path), "--out", "-") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert str(path) in line


def test_a_file_without_a_record_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "sacct.txt"
    path.write_text(sacct_text().splitlines()[0] + "\n")
    assert command("slurm", "--cluster", "s1", "--file", str(path), "--out", "-") == 0
    assert "no record in this file" in capsys.readouterr().err


def slurm_commands(folder: Path) -> list[str]:
    """Options for a Slurm that answers as one without jobs in its controller, and the text of its accounting."""
    (folder / "sacct.txt").write_text(sacct_text())
    answers = {
        "sacct": f'case "$*" in *--json*) exit 1;; esac; cat {folder}/sacct.txt',
        "squeue": """echo '{"jobs": []}'""",
        "scontrol": "echo 'NodeName=g1 Gres=gpu:2 State=IDLE'",
    }
    options = ["--state", str(folder / "state"), "--once"]
    for name, answer in answers.items():
        (folder / name).write_text(f"#!/bin/sh\n{answer}\n")
        (folder / name).chmod(0o755)
        options += [f"--{name}", str(folder / name)]
    return options


def test_slurms_commands_are_asked_and_a_second_run_tells_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    asked, out = slurm_commands(tmp_path), tmp_path / "rows.jsonl"
    for _ in range(2):
        assert command("slurm", "--cluster", "s1", *asked, "--out", str(out)) == 0
    events = [line for line in out.read_text().splitlines() if json.loads(line)["record"] == "events"]
    assert [(row["event"], row["tenant"]) for row in map(json.loads, events[:3])] == LIFE
    assert set(events[3:]) <= set(events[:3])


@seldom(5, "Slurm is watched")
@pytest.mark.parametrize("to", ["file", "store", "server"])
def test_slurm_is_watched_wherever_its_rows_go_without_a_word_on_its_state(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/slurm.md has it: a second look tells nothing new, so its place is kept."""
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = [one for one in slurm_commands(tmp_path) if one not in ("--state", str(tmp_path / "state"))]
    out, store = tmp_path / "rows.jsonl", fresh_store(tmp_path / "store")
    for _ in range(2):
        if to == "file":
            assert command("slurm", "--cluster", "c1", *asked, "--out", str(out)) == 0
        elif to == "server":
            with receiving(store, tokens_file(tmp_path)) as served:
                token = ["--token-file", str(tmp_path / "token")]
                (tmp_path / "token").write_text(TOKEN)
                assert command("slurm", "--cluster", "c1", *asked, "--url", served.url, *token) == 0
        else:
            store.close()
            assert command("slurm", "--cluster", "c1", *asked, "--store", f"chdb://{tmp_path}/store") == 0
            store = open_store(f"chdb://{tmp_path}/store")
    events = store.rows("SELECT event, tenant FROM events ORDER BY ts")
    store.close()
    if to == "file":
        events = [row for row in map(json.loads, out.read_text().splitlines()) if row["record"] == "events"][:3]
    assert [(row["event"], row["tenant"]) for row in events] == LIFE
    assert [*tmp_path.glob("*.state"), *tmp_path.glob(".local/state/gpuledger/watch-slurm-*.state")]


def test_one_look_at_a_slurm_of_which_a_part_is_away_tells_the_rest_and_exits_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    asked, out = slurm_commands(tmp_path), tmp_path / "rows.jsonl"
    (tmp_path / "squeue").write_text("#!/bin/sh\necho slurmctld is down >&2\nexit 1\n")
    assert command("slurm", "--cluster", "s1", *asked, "--out", str(out)) == 2
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["event"], row["tenant"]) for row in rows if row["record"] == "events"] == LIFE
    assert [row["finding"] for row in rows if row["record"] == "findings"] == ["source_unreachable"]
    assert "squeue: exit status 1: slurmctld is down" in capsys.readouterr().err


def test_a_watch_that_is_told_to_stop_remembers_where_it_was(
    cluster: tuple[ApiServer, list[str]], tmp_path: Path
) -> None:
    server, options = cluster
    out = tmp_path / "rows.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(Path(watch.__file__).parents[2])}

    def start() -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-c", RUN, "watch", *options, "--out", str(out)]
        return subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE)

    def written(count: int, process: subprocess.Popen[bytes]) -> None:
        def there() -> bool:
            assert process.poll() is None
            return out.exists() and len(lines(out)) >= count

        until(there)

    server.apply(NODES, node())
    server.apply(PODS, life()[0])
    first = start()
    written(1, first)
    server.apply(PODS, life()[-1])
    written(2, first)
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=PATIENCE_SECONDS)
    assert first.returncode == 0
    assert b"kubernetes: events 2" in said
    server.delete(PODS, ended(deleting(life()[-1], 50), 55, 143))
    second = start()
    written(3, second)
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 0
    assert [row["event"] for row in lines(out)] == ["submitted", "started", "cancelled"]
    assert server.lists() == 1


def test_a_file_that_windows_saved_is_read_and_says_that_its_times_were_taken_for_utc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "jobs.txt", tmp_path / "rows.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + sacct_text().replace("\n", "\r\n").encode())
    asked = ["slurm", "--cluster", "s1", "--file", str(file), "--out", str(out)]
    assert command(*asked) == 0
    assert "were read as UTC" in capsys.readouterr().err
    assert command(*asked, "--zone", "UTC") == 0
    assert "were read as UTC" not in capsys.readouterr().err
    assert [row["event"] for row in lines(out)] == 2 * ["submitted", "started", "finished"]
