"""Random lives of jobs on a real Slurm, with its users' text everywhere: who held what, to the second.

It runs where Slurm is installed (real_cluster.py says what that takes), for a minute and a quarter, with a restart of
the controller. Accounting is not taken away: Slurm 22.05 was seen to lose a job's record then. GPULEDGER_SEED=4711
repeats a run's decisions, as far as a scheduler can be repeated; GPULEDGER_SLURM_SECONDS=300 makes it longer.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from collectors.slurm import times
from collectors.slurm.hostlists import hosts
from ingest import ingest_tables
from tests.collectors.slurm import hostile
from tests.collectors.slurm.real_cluster import ACCOUNTS, PATIENCE_SECONDS, USERS, Cluster, missing, running
from tests.draws import drawn_seed
from tests.stores import emptied
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=f"no Slurm here: {missing()}")]
LIFE_SECONDS = float(os.environ.get("GPULEDGER_SLURM_SECONDS", "25"))
SEED = drawn_seed("a real Slurm")
LEAST_JOBS = LIFE_SECONDS / 2
LONGEST = 20
SLACK_SECONDS = 5
EVERY_SECONDS = 2
A100_UNITS = 7
WHOLE_GPUS = {"node1": 4, "node2": 4}
NEVER = datetime.max.replace(tzinfo=UTC)
SHARDED, SHARDS = ("GPU-4-0", "GPU-4-1"), 4
DEVICES = [
    *(
        {"node": f"node{node}", "index": index, "device_id": f"GPU-{node}-{index}", "model": "H100",
         "device_units": size}
        for node, size, count in ((1, 1, 4), (2, 1, 4), (4, 4, 2))
        for index in range(count)
    ),
    *(
        {
            "node": "node3", "index": index, "device_id": f"GPU-3-{index % 2}", "partition_id": f"MIG-3-{index}",
            "units": 3 if index < 2 else 1, "model": "A100", "device_units": A100_UNITS,
        }
        for index in range(4)
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running() as cluster:
        yield cluster


@dataclass
class Lives:
    """Decisions about jobs and nodes, one a call; what was submitted, by job id.   lengths: in seconds."""

    cluster: Cluster
    draw: random.Random
    accounts: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    lengths: dict[int, float] = field(default_factory=dict)
    instances: dict[int, Fraction] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    restarted_at: datetime = NEVER

    def step(self) -> None:
        actions: list[tuple[int, Callable[[], object]]] = [
            (10, self.submit), (2, self.submit_array), (2, self.submit_het), (3, self.requeue), (3, self.suspend),
            (3, self.resume), (3, self.resize), (2, self.cancel), (2, self.drain), (5, self.undrain), (1, self.hold),
        ]  # fmt: skip
        (action,) = self.draw.choices([one for _, one in actions], [weight for weight, _ in actions])
        action()
        self.done[action.__name__] += 1

    def submit(self) -> None:
        kind = self.draw.choice(["one", "one", "several", "two nodes", "shards", "instances", "instances", "urgent"])
        seconds = self.draw.choice([0, 1, 3, 6, 12, LONGEST])
        if kind == "instances":
            large, small = self.draw.choice([(1, 0), (0, 1), (1, 1), (0, 2), (2, 1)])
            asked = [f"gpu:a100_3g.20gb:{large}"] * bool(large) + [f"gpu:a100_1g.5gb:{small}"] * bool(small)
            job = self._sbatch("--partition=mig", f"--gres={','.join(asked)}", seconds=seconds)
            if job is not None:
                self.instances[job] = Fraction(3 * large + small, A100_UNITS)
            return
        options = {
            "one": ["--gres=gpu:1"],
            "several": [f"--gres=gpu:{self.draw.randrange(2, 5)}"],
            "two nodes": ["--nodes=2", "--gres=gpu:1"],
            "shards": ["--partition=shards", f"--gres=shard:{self.draw.randrange(1, 4)}"],
            "urgent": ["--qos=urgent", f"--gres=gpu:{self.draw.randrange(1, 5)}"],
        }[kind]
        self._sbatch(*options, seconds=seconds)

    def submit_array(self) -> None:
        self._sbatch(f"--array=0-{self.draw.randrange(1, 4)}%2", "--gres=gpu:1", seconds=2)

    def submit_het(self) -> None:
        self._sbatch("--gres=gpu:1", ":", "--gres=gpu:1", seconds=4)

    def requeue(self) -> None:
        self._on_a_job("RUNNING", "scontrol", "requeue")

    def suspend(self) -> None:
        self._on_a_job("RUNNING", "scontrol", "suspend")

    def resume(self) -> None:
        self._on_a_job("SUSPENDED", "scontrol", "resume")

    def hold(self) -> None:
        self._on_a_job("PENDING", "scontrol", "hold")

    def cancel(self) -> None:
        self._on_a_job(self.draw.choice(["RUNNING", "PENDING"]), "scancel")

    def resize(self) -> None:
        """A job on two nodes gives one back."""
        if jobs := self._jobs("RUNNING", "%D %A", lambda line: line.startswith("2 ")):
            self.cluster.run(
                "scontrol", "update", f"jobid={self.draw.choice(jobs).split()[1]}", "numnodes=1", check=False
            )

    def drain(self) -> None:
        self._node("state=drain", f"reason={hostile.text(self.draw)[:100]}")

    def undrain(self) -> None:
        self._node("state=resume")

    def restart(self) -> None:
        """slurmctld 22.05 forgets then which shards a suspended job has, and gives them to others: nobody is."""
        for job in self._jobs("SUSPENDED", "%P %A", lambda line: line.startswith("shards ")):
            self.cluster.run("scontrol", "resume", job.split()[1], check=False)
        self.restarted_at = datetime.now(UTC)
        self.cluster.restart_controller()

    def end(self) -> None:
        """Everybody goes home, and accounting has it: on a busy machine slurmctld may be late to send it."""
        self.cluster.until(self._gone, "the last jobs", 2 * PATIENCE_SECONDS)
        self.cluster.until(self.cluster.is_accounted, "slurmdbd has the last records")

    def _gone(self) -> bool:
        """Whether nobody is left; who has come back meanwhile, being put into the queue again, is sent home, too."""
        for node in ("node1", "node2", "node3", "node4"):
            self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        for job in self._jobs("SUSPENDED", "%A"):
            self.cluster.run("scontrol", "resume", job, check=False)
        self.cluster.run("scancel", "--state=PENDING", "--full", check=False)
        self.cluster.run("scancel", *{f"--user={user}" for user in USERS}, "--state=PENDING", check=False)
        return not self._jobs("", "%A")

    def _sbatch(self, *options: str, seconds: float) -> int | None:
        account = self.draw.choice(ACCOUNTS)
        written = [f"--job-name={self._text()}", f"--comment={self._text()}", f"--wckey={self._text()}"]
        whose = [f"--account={account}", f"--uid={self.draw.choice(USERS)}", "--chdir=/", *written]
        arguments: list[str] = []
        for number, component in enumerate(" ".join(options).split(" : ")):
            arguments += [*([":"] if number else []), *whose, *component.split()]
        job = self.cluster.submit(*arguments, seconds=seconds)
        if job is None:
            self.done["refused"] += 1
        else:
            # A slurmctld that is restarted may give an id again.
            self.accounts[job].add(account)
            self.lengths[job] = max(seconds, self.lengths.get(job, 0))
        return job

    def _text(self) -> str:
        return hostile.text(self.draw)

    def _jobs(self, state: str, shown: str, fits: Callable[[str], bool] = bool) -> list[str]:
        wanted = [f"--states={state}"] if state else []
        return [
            line for line in self.cluster.text("squeue", "-h", "-r", "-o", shown, *wanted).splitlines() if fits(line)
        ]

    def _on_a_job(self, state: str, *command: str) -> None:
        if jobs := self._jobs(state, "%A"):
            self.cluster.run(*command, self.draw.choice(jobs), check=False)

    def _node(self, *update: str) -> None:
        self.cluster.run("scontrol", "update", f"nodename=node{self.draw.randrange(1, 5)}", *update, check=False)


def rest_addresses(cluster: Cluster) -> list[list[str]]:
    """How `watch` may ask slurmrestd: by its socket, or by its port with a token."""
    path, port = cluster.rest(), cluster.values["rest_port"]
    return [
        ["--rest", f"unix:{path}"],
        ["--rest", f"http://127.0.0.1:{port}", "--rest-token-file", str(cluster.token())],
    ]


@contextlib.contextmanager
def watching(cluster: Cluster, folder: Path, *options: str) -> Iterator[Path]:
    """`gpuledger watch slurm` beside it, as its users run it; what it tells is in the file."""
    folder.mkdir()
    with (folder / "inventory.csv").open("w", encoding="utf-8", newline="") as file:
        names = dict.fromkeys(name for device in DEVICES for name in device)
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(DEVICES)
    out = folder / "rows.jsonl"
    arguments = [
        sys.executable, "-m", "gpuledger", "watch", "slurm", "--cluster", "tiny", "--every", str(EVERY_SECONDS),
        "--inventory", str(folder / "inventory.csv"), "--state", str(folder / "state"), "--out", str(out), *options,
    ]  # fmt: skip
    environment = cluster.environment | {"PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(folder)}
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, cwd=folder) as process:
        try:
            yield out
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said.decode()


@dataclass
class Accounted:
    """What sacct tells. seconds: GPU-seconds by workload and account.   contested: of these, in seconds that it stamps
    on more GPUs than the node has.   jobs: of which it has a record.   doubtful: those whose record it is known to get
    wrong."""

    seconds: dict[tuple[str, str], Fraction]
    contested: dict[tuple[str, str], Fraction]
    jobs: set[str]
    doubtful: set[str]


def accounted(cluster: Cluster, lives: Lives) -> Accounted:
    """A column a call, so that nothing can be mistaken; beside each the job's id: calls may differ in order."""

    def column(name: str) -> list[tuple[str, ...]]:
        command = ("sacct", "-X", "-a", "-D", "-n", "-P", "--starttime=2000-01-01", f"--format=jobidraw,{name}")
        lines = cluster.run(*command).stdout.decode().removesuffix("\n").split("\n")
        return [tuple(line.split("|", 1)) for line in lines]

    names = ("jobid", "submit", "start", "end", "alloctres", "account", "state", "nodelist", "suspended")
    columns = [column(name) for name in names]
    ids = [[job for job, _ in values] for values in columns]
    assert all(of_column == ids[0] for of_column in ids), ids
    reported = [ids[0], *([value for _, value in values] for values in columns)]
    counted = cluster.text("squeue", "-h", "-a", "-r", "-t", "all", "-O", "JobID:20,RestartCnt:20").splitlines()
    restarted = {job for job, count in map(str.split, counted) if int(count)}
    held: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    on_nodes: dict[tuple[str, int], list[tuple[tuple[str, str], Fraction]]] = defaultdict(list)
    doubtful, resized = set(), set[str]()
    for raw, shown, submit, start, end, tres, account, state, nodes, suspended in zip(*reported, strict=True):
        counts = dict(pair.split("=") for pair in tres.split(",") if pair)
        if start in ("Unknown", "None") or not counts:
            # Slurm 22.05 loses the start of an array's task that is requeued in its first second.
            doubtful |= {raw} if start == "None" and counts else set()
            continue
        # The later record of a resized job may name the first start; its submission is the resize.
        seconds = int((datetime.fromisoformat(end) - datetime.fromisoformat(max(submit, start))).total_seconds())
        submitted = int(re.split(r"[_+]", shown)[0])
        assert account in lives.accounts[submitted], (raw, shown, submit, start, state)
        resized |= {raw} if state == "RESIZING" else set()
        held_longer = seconds > lives.lengths[submitted] + (times.seconds(suspended) or 0) + SLACK_SECONDS
        if (state == "REQUEUED" and seconds > lives.lengths[submitted]) or (raw in resized and held_longer):
            # It was over when it was requeued, and its end is the requeue's; or it was resized and then preempted, and
            # its record goes on until it was cancelled in the queue.
            doubtful.add(raw)
        doubtful |= {raw} & resized & restarted  # the same, where it was cancelled before it would have ended
        gpus = Fraction(counts.get("gres/gpu", 0)) + Fraction(counts.get("gres/shard", 0)) / 4
        held[raw, account] += seconds * lives.instances.get(submitted, gpus)
        began = int(datetime.fromisoformat(end).timestamp()) - seconds
        names = hosts(nodes) if nodes != "None assigned" else ()
        for node in set(names) & WHOLE_GPUS.keys():
            for second in range(began, began + seconds):
                on_nodes[node, second].append(((raw, account), gpus / len(names)))
    contested: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for (node, _), holders in on_nodes.items():
        if sum(gpus for _, gpus in holders) > WHOLE_GPUS[node]:
            for key, gpus in holders:
                contested[key] += gpus
    return Accounted({key: seconds for key, seconds in held.items() if seconds}, contested, set(reported[0]), doubtful)


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Not `splitlines`: it knows more ends of a line than JSON lines have."""
    return [json.loads(line) for line in out.read_text(encoding="utf-8").split("\n") if line]


def billed(store: Store, out: Path, begun: datetime) -> dict[tuple[str, str], Fraction]:
    """GPU-seconds by workload and tenant, of the books that are made from what was told."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lines_of(out):
        row["ts"] = datetime.fromisoformat(row["ts"])
        rows[row.pop("record")].append(row)
    for device in {str(device["device_id"]): device for device in DEVICES}.values():
        row = {"ts": begun, "cluster": "tiny", "state": "available", "units": device["device_units"]}
        rows["devices"].append(row | {name: device[name] for name in ("node", "device_id", "model")})
    for record, of_record in rows.items():
        names = dict.fromkeys(name for row in of_record for name in row)
        table = pa.table({name: [row.get(name) for row in of_record] for name in names})
        ingest_tables(store, RECORD_TYPES[record], "test", [table])
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    close(store, until, now=until + timedelta(hours=1))
    held = store.rows(
        "SELECT workload_id, tenant, device_units,"
        " toInt64(sum(used_unit_ms + idle_unit_ms) + sum(unmetered_unit_ms)) AS unit_ms"
        " FROM ledger WHERE workload_id != '' GROUP BY workload_id, tenant, device_units"
    )
    found: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for row in held:
        found[row["workload_id"], row["tenant"]] += Fraction(row["unit_ms"], 1000 * row["device_units"])
    return found


def given_twice(out: Path, since: datetime) -> set[str]:
    """Jobs with shards that the controller put together on a GPU that has fewer, since its restart: seldom it forgets
    then which shards a job has, also of one that runs."""
    holders: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    found = set()
    for row in sorted(lines_of(out), key=lambda row: str(row["ts"])):
        if row["record"] != "events" or row["event"] == "submitted":
            continue
        for held in holders.values():
            held.pop(row["allocation_id"], None)
        if row["event"] in ("started", "resized") and str(row.get("device_id", "")) in SHARDED:
            holders[row["device_id"]][row["allocation_id"]] = row["workload_id"], row["units"]
        late = datetime.fromisoformat(row["ts"]) >= since.replace(microsecond=0)
        for held in holders.values():
            if late and sum(units for _, units in held.values()) > SHARDS:
                found |= {job for job, _ in held.values()}
    return found


def evidence(cluster: Cluster, store: Store, out: Path, wrong: dict[tuple[str, str], tuple[float, float]]) -> str:
    """What sacct, our rows and the books say of jobs that differ."""
    refused = store.rows("SELECT * FROM refused_claims")
    jobs = {job for job, _ in wrong}
    for row in refused:
        if row["allocation_id"].split("@")[0] in jobs:
            jobs |= {holder.split("@")[0] for holder in row["detail"].removeprefix("held by ").split(", ")}
    lines = [f"{out.parent.name}: (workload, tenant) -> sacct's seconds, ours: {wrong}"]
    columns = "--format=jobidraw,jobid,state,submit,start,end,suspended,nodelist,alloctres"
    for line in cluster.text("sacct", "-X", "-a", "-D", "-P", "--starttime=2000-01-01", columns).splitlines():
        lines += [line] if line.split("|")[0] in jobs else []
    for row in lines_of(out):
        if row.get("workload_id") in jobs or row["record"] in ("devices", "findings"):
            lines.append(" ".join(str(value) for value in row.values()))
    lines += [str(row) for row in refused]
    return "\n".join(lines)


def test_every_job_is_billed_to_its_account_to_the_second(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    begun = datetime.now(UTC) - timedelta(minutes=1)
    lives = Lives(cluster, random.Random(SEED))
    print(f"GPULEDGER_SEED={SEED}")
    with contextlib.ExitStack() as stack:
        outs = [
            stack.enter_context(watching(cluster, tmp_path / "commands")),
            stack.enter_context(watching(cluster, tmp_path / "rest", *lives.draw.choice(rest_addresses(cluster)))),
        ]
        begin = time.monotonic()
        for share, then in ((0.5, lives.restart), (1.0, lives.end)):
            # A busy machine has few steps in that time: then it goes on until there is something to compare.
            while time.monotonic() - begin < LIFE_SECONDS * share or len(lives.accounts) < LEAST_JOBS * share:
                lives.step()
                time.sleep(lives.draw.choice([0, 0.2, 0.7]))
            then()
        time.sleep(3 * EVERY_SECONDS)
    accounting = accounted(cluster, lives)
    reported = accounting.seconds
    print(dict(lives.done), len(lives.accounts), "submissions", float(sum(reported.values())), "GPU-seconds")
    print(float(sum(accounting.contested.values())), "of them in seconds stamped on more GPUs than there are")
    assert len(reported) > LEAST_JOBS / 4
    for out in outs:
        # sacct was read with an earlier end, and has overwritten it since: the job that it names is billed until then.
        changed = {row["workload_id"] for row in lines_of(out) if row.get("finding") == "end_changed"}
        books = billed(emptied(store), out, begun)
        twice = given_twice(out, lives.restarted_at)
        print(f"{sorted(twice)} have shards that were given twice")
        wrong = {
            key: (float(reported.get(key, 0)), float(books.get(key, 0)))
            for key in reported | books
            if key[0] not in accounting.doubtful | changed | twice
            and abs(reported.get(key, Fraction()) - books.get(key, Fraction()))
            > Fraction(1, 20) + accounting.contested.get(key, 0)
        }
        # Slurm 22.05 loses records of jobs that begin while it restarts: the controller knew when they were over.
        lost = {key: wrong.pop(key)[1] for key in list(wrong) if key[0] not in accounting.jobs}
        assert not wrong, evidence(cluster, store, out, wrong)
        assert all(seconds <= 4 * LONGEST for seconds in lost.values()), lost
    tenants = {row["tenant"] for out in outs for row in lines_of(out) if "tenant" in row}
    assert tenants <= set(ACCOUNTS)
