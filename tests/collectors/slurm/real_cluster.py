"""A real Slurm on loopback with made-up GPUs: munge, MariaDB, slurmdbd, slurmctld, a slurmd for each node, slurmrestd.

Slurm only wants the files of its GPUs, so nodes that are made of character devices do. Everything lives in one folder
and on free ports. Needs root, and Debian's slurmctld slurmd slurmdbd slurmrestd slurm-client munge mariadb-server.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_ports

PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "sbatch",
    "sacct",
)
PATIENCE_SECONDS = 60.0
SLURM_CONF = """\
ClusterName=tiny
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/jwt.key
CredType=cred/munge
SlurmUser=root
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=2,sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,shard
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={folder}/run/munge.socket
AccountingStorageTRES={tres}
AccountingStoreFlags=job_comment,job_env,job_script
AccountingStorageEnforce=associations,limits,qos
TrackWCKey=yes
PreemptType=preempt/qos
PreemptMode=REQUEUE
KillWait=1
MinJobAge=300
InactiveLimit=0
SlurmctldTimeout=60
SlurmdTimeout=300
UnkillableStepTimeout=30
PriorityType=priority/multifactor
PriorityWeightQOS=1000
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs=16 RealMemory=4000 Gres=gpu:4
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2} CPUs=16 RealMemory=4000 Gres=gpu:4
NodeName=node3 NodeHostname={host} NodeAddr=127.0.0.1 Port={port3} CPUs=16 RealMemory=4000 \
Gres=gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2
NodeName=node4 NodeHostname={host} NodeAddr=127.0.0.1 Port={port4} CPUs=16 RealMemory=4000 Gres=gpu:2,shard:8
PartitionName=gpu Nodes=node[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=mig Nodes=node3 MaxTime=INFINITE State=UP
PartitionName=shards Nodes=node4 MaxTime=INFINITE State=UP
"""
GRES_CONF = """\
NodeName=node1 Name=gpu File={folder}/dev/n1/nvidia[0-3]
NodeName=node2 Name=gpu File={folder}/dev/n2/nvidia[0-3]
NodeName=node3 Name=gpu Type=a100_3g.20gb File={folder}/dev/n3/nvidia[0-1]
NodeName=node3 Name=gpu Type=a100_1g.5gb File={folder}/dev/n3/nvidia[2-3]
NodeName=node4 Name=gpu File={folder}/dev/n4/nvidia[0-1]
NodeName=node4 Name=shard Count=8
"""
"""Without drivers Slurm gives a GPU to a shard and whole at once: shards have a node of their own."""
SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/jwt.key
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
TrackWCKey=yes
"""
NODES = 4
ACCOUNTS = ("ml-vision", "r&d energy", "a|b", "quo`te", "x/y", "acc.t@x", "ünï")
USERS = ("root", "nobody", "games")
REST_USER = "nobody"
"""slurmrestd refuses to run as root; whoever asks it over its socket is checked to be the same user, or root."""
REST_TOKEN_SECONDS = 86_400
QOS = {"normal": 0, "urgent": 1000}


def missing() -> str:
    """What this machine lacks; '' if it can run one."""
    if os.geteuid():
        return "not root"
    lacking = [name for name in PROGRAMS if _found(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


class Cluster:
    """A running one.   folder: all that is its own.   socket: where slurmrestd listens, once asked for."""

    def __init__(self, folder: Path, tres: str) -> None:
        self.folder = folder
        ports = free_ports(4 + NODES)
        self.values = {
            "folder": folder,
            "host": socket.gethostname().split(".")[0],
            "tres": tres,
            **dict(
                zip(
                    ("ctld_port", "dbd_port", "sql_port", "rest_port", *(f"port{n + 1}" for n in range(NODES))),
                    ports,
                    strict=True,
                )
            ),
        }
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self._write()
        self._munge()
        self._database()
        self._daemon("slurmdbd", ["slurmdbd", "-D"])
        self.until(lambda: self.run("sacctmgr", "-n", "list", "cluster", check=False).returncode == 0, "slurmdbd")
        self._associations()
        self.controller()
        for number in range(1, NODES + 1):
            self._daemon(f"node{number}", ["slurmd", "-D", "-N", f"node{number}"])
        self.until(lambda: set(self.text("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}, "the nodes")

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.kill()
        for process in self.processes.values():
            process.wait(10)

    def controller(self) -> None:
        self._daemon("slurmctld", ["slurmctld", "-D"])
        self.until(lambda: self.run("scontrol", "ping", check=False).stdout.count(b"UP") > 0, "slurmctld")

    def restart_controller(self) -> None:
        process = self.processes.pop("slurmctld")
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        self.controller()

    def rest(self, plugins: str = "openapi/v0.0.38,openapi/dbv0.0.38") -> Path:
        """The socket on which a slurmrestd listens; another listens on `rest_port`, for those with a token."""
        path = self.folder / "run" / "rest.socket"
        if "slurmrestd" not in self.processes:
            shutil.chown(path.parent, REST_USER)
            for name, way, where in (
                ("slurmrestd", "rest_auth/local", f"unix:{path}"),
                ("slurmrestd-jwt", "rest_auth/jwt", f"127.0.0.1:{self.values['rest_port']}"),
            ):
                more = {"SLURM_JWT": "daemon"} if way == "rest_auth/jwt" else {}
                self._daemon(name, ["slurmrestd", "-a", way, "-s", plugins, where], as_user=REST_USER, more=more)
            self.until(path.exists, "slurmrestd")
        return path

    def token(self) -> Path:
        """A file with a token for slurmrestd, as an operator makes it."""
        path = self.folder / "token"
        said = self.text("scontrol", "token", f"lifespan={REST_TOKEN_SECONDS}")
        path.write_text(said.removeprefix("SLURM_JWT="), encoding="utf-8")
        return path

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """A command of Slurm's on this cluster, in UTC."""
        return subprocess.run(
            command,
            env=self.environment | {"TZ": "UTC", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            check=check,
            timeout=PATIENCE_SECONDS,
        )

    def text(self, *command: str) -> str:
        return self.run(*command).stdout.decode("utf-8", "replace").strip()

    def is_accounted(self) -> bool:
        """Whether slurmctld has nothing more to send to slurmdbd."""
        return "DBD Agent queue size: 0\n" in self.text("sdiag")

    def submit(self, *options: str, seconds: float = 1) -> int | None:
        """The id of a batch job that sleeps; None if Slurm does not take it."""
        done = self.run("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap=sleep {seconds}", check=False)
        return None if done.returncode else int(done.stdout.split(b";")[0])

    def until(self, done: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not done():
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} ended: {self._log(name)}"
            assert time.monotonic() < end, f"{what}: not in {seconds} s"
            time.sleep(0.1)

    def _log(self, name: str) -> str:
        path = self.folder / "log" / f"{name}.out"
        return path.read_text(errors="replace")[-1000:]

    def _write(self) -> None:
        for name in ("run", "state", "spool", "log", "mysql", *(f"dev/n{number + 1}" for number in range(NODES))):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "jwt.key").write_bytes(secrets.token_bytes(32))
        (self.folder / "jwt.key").chmod(0o600)
        for number in range(1, NODES + 1):
            for index in range(4):
                path = self.folder / "dev" / f"n{number}" / f"nvidia{index}"
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        for name, text in (("slurm.conf", SLURM_CONF), ("gres.conf", GRES_CONF), ("slurmdbd.conf", SLURMDBD_CONF)):
            path = self.folder / name
            path.write_text(text.format(**self.values), encoding="utf-8")
            path.chmod(0o600 if name == "slurmdbd.conf" else 0o644)

    def _munge(self) -> None:
        run = self.folder / "run"
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self._daemon(
            "munged",
            ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={run}/munge.socket",
             f"--pid-file={run}/munged.pid", f"--log-file={self.folder}/log/munged.log",
             f"--seed-file={run}/munged.seed"],
        )  # fmt: skip
        self.until((run / "munge.socket").exists, "munged")

    def _database(self) -> None:
        data, sql = self.folder / "mysql", self.folder / "run" / "mysql.sock"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            check=True, capture_output=True,
        )  # fmt: skip
        self._daemon(
            "mariadbd",
            ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", "--bind-address=127.0.0.1",
             f"--port={self.values['sql_port']}", f"--socket={sql}", "--innodb-buffer-pool-size=64M",
             "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
             f"--pid-file={self.folder}/run/mysql.pid"],
        )  # fmt: skip
        statement = (
            "CREATE DATABASE slurm_acct_db; CREATE USER slurm@'%' IDENTIFIED BY 'slurm';"
            "CREATE USER slurm@localhost IDENTIFIED BY 'slurm';"
            "GRANT ALL ON slurm_acct_db.* TO slurm@'%'; GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
        )
        client = ["mariadb", "--no-defaults", f"--socket={sql}", "-uroot", "-e"]
        self.until(lambda: not subprocess.run([*client, "SELECT 1"], capture_output=True).returncode, "mariadbd")
        subprocess.run([*client, statement], check=True, capture_output=True)

    def _associations(self) -> None:
        """No quotes are needed around what is one argument; a comma would be a list."""
        manager = ("sacctmgr", "-i")
        self.run(*manager, "add", "cluster", "tiny")
        for name, priority in QOS.items():
            if name != "normal":
                self.run(*manager, "add", "qos", name, f"priority={priority}", "preempt=normal", "preemptmode=requeue")
        for account in ACCOUNTS:
            self.run(*manager, "add", "account", f"name={account}", "qos=normal,urgent")
            self.run(*manager, "add", "user", f"name={','.join(USERS)}", f"account={account}", "qos=normal,urgent")

    def _daemon(
        self, name: str, command: Sequence[str], as_user: str = "", more: Mapping[str, str] | None = None
    ) -> None:
        whose: dict[str, Any] = {}
        if as_user:
            whose = {"user": as_user, "group": pwd.getpwnam(as_user).pw_gid, "extra_groups": ()}
        log = (self.folder / "log" / f"{name}.out").open("ab")
        with log:
            self.processes[name] = subprocess.Popen(
                [_found(command[0]) or command[0], *command[1:]], env=self.environment | dict(more or {}),
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, **whose,
            )  # fmt: skip


@contextmanager
def running(tres: str = "gres/gpu,gres/shard") -> Iterator[Cluster]:
    """In a folder that slurmrestd, another user, may enter too.

    tres: what accounting keeps count of; without the types of MIG it knows no profiles.
    """
    with tempfile.TemporaryDirectory(prefix="gpuledger-slurm-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        cluster = Cluster(Path(folder), tres)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def _found(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
