"""What collectors found, in Chinese."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from alerts.finding_words import _ACTIONS, NAMES, XIDS, found
from alerts.xid_advice import advice
from collectors.agent.privileges import Privilege
from collectors.exporters.tracker import UNREPORTED
from collectors.kubernetes.quotas import of_cluster_queue, of_volcano_queue
from collectors.kubernetes.settings import Settings
from collectors.kubernetes.waits import of_pod_group
from collectors.nvml.gauges import ACTIONS
from collectors.nvml.xids import MEANINGS, Xid, meaning
from collectors.slurm.collect import END_CHANGED, END_UNKNOWN
from collectors.slurm.rows import PROFILE_UNKNOWN, RECORD_LOST, RECORD_MISSING, RUNAWAY

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
SPAN = "2026-11-28T17:00:00Z to 2026-11-28T18:00:00Z"
IS_THERE = "without it nothing is delivered; rows wait in the spool"
LACKING = [
    Privilege("P", "unsupported", IS_THERE, "there is no P", "put the token into that file"),
    Privilege("P", "no_permission", "without it this node runs no jobs", "P: P", "let the agent's user read it"),
    Privilege("P", "blank", "everybody on this node can read it, or put another in its place", "P is open to others",
              "P"),
    Privilege(
        "P", "unsupported", "without it nothing is known of NVIDIA devices", "P",
        "install the driver, run the container with the NVIDIA runtime, or set sources.nvml.enabled: false",
    ),
    Privilege(
        "P", "no_permission", "without it processes have no owners, and who used a shared device is unknown",
        "P is not the host's, or hides its processes",
        "hostPID: true in a pod, or mount the host's /proc and set sources.nvml.proc",
    ),
    Privilege("P", "no_permission", "without it which pod holds which device is unknown", "P may not be opened",
              "mount P into the agent's container and let it run as root"),
    Privilege("P", "unsupported", "without it which pod holds which device is unknown", "there is no P",
              "is the kubelet running?"),
    Privilege("P", "no_permission", "without it XIDs from before the start are unknown", "P: P",
              "run as root with CAP_SYSLOG, or set sources.nvml.kernel_log: null"),
]  # fmt: skip
SETTINGS = Settings(cluster="c")
HOSTILE: Mapping[str, Any] = {
    "metadata": {"name": "P"},
    "spec": {
        "weight": 0, "capability": [], "deserved": {"nvidia.com/gpu": -1, "nvidia.com/gpu.shared": 1},
        "resourceGroups": [{"flavors": [
            {"name": "P", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": -7, "borrowingLimit": {}}]},
            {"resources": 7}, {"name": "P", "resources": 7},
        ]}, {"flavors": 7}],
    },
    "status": {"flavorsUsage": [{"name": "P", "resources": 7},
                                {"resources": [{"name": "nvidia.com/gpu", "total": -7}]}]},
}  # fmt: skip
OBJECTS = [
    *(("ClusterQueue", problem) for problem in of_cluster_queue(HOSTILE, SETTINGS).problems),
    *(("ClusterQueue", problem) for problem in of_cluster_queue({"spec": 7}, SETTINGS).problems),
    *(("Queue", problem) for problem in of_volcano_queue(HOSTILE, SETTINGS).problems),
    *(
        ("PodGroup", problem)
        for given in ({}, {"uid": "u", "creationTimestamp": "2026-11-28T12:00:00Z"})
        for problem in of_pod_group({"metadata": given, "spec": {"minResources": 7}}, SETTINGS).problems
    ),
    ("PodGroup", "minResources of P is '-7', not a quantity from 0"),
    ("Workload", "spec.podSets is not a list of objects"),
    ("Workload", "count of pod set P is '-7', not a number from 0"),
]
"""What cannot be read of an object, as its readers say it."""
MESSAGES = [
    *(Xid(NOON, code).message for code in (*MEANINGS, 999)),
    *(f"the driver asks: {action}" for action in ACTIONS.values()),
    "the clock went from 2026-11-28T17:00:00Z to 2026-11-28T16:00:00Z: averages and counters start anew",
    "the driver does not let this process read P1, P2",
    "the driver does not let this process wait for XIDs",
    "expected of A100, mig, and has no value: P1 (P)",
    "/proc is not the host's, so processes have no owners: set hostPID or mount the host's /proc",
    "added",
    "available -> unavailable, MIG on, units 1 -> 7, index 0 -> 1",
    "pid 7 (P) of the host is on it without an allocation",
    "pid 7 (P) of a login session is on it without an allocation",
    "pid 7 (P) of container 4711, which is no pod's, is on it without an allocation",
    "pid 7 (P) of pod P/P is on it without an allocation; unattributed activity; samples",
    "an allocation names P1, which this node does not have",
    "7 of 8 P are allocatable",
    "the exporter names it no longer",
    "P of P: the unit is not known: P and P in one answer; left blank",
    "P of P, P and 4 more: the unit is not known: its numbers fit P and P; left blank",
    "P of the exporter: the unit is not known: it was P, and its rate is that of P; left blank",
    "P of P: was P, is P now; last shown to be P at 2026-11-28T17:00:00Z, and at least 40 readings since were "
    "taken for P and may be wrong",
    "P of 20 devices became 0.001 times what it was, by their median, as their exporter was upgraded (1.0 to 2.0): its "
    "unit may have changed",
    UNREPORTED,
    "P: its series have ended",
    "P: nothing of it was pushed for 90 s",
    "P has not answered for several intervals",
    "the watch was interrupted from 2026-11-28T17:00:00Z to 2026-11-28T18:00:00Z: 2 pods ended unseen; what was both "
    "bound and gone in between is not known",
    f"the spool was full for too long: 90 rows of P in 3 batches of {SPAN} are lost",
    f"the disk was full for too long: 90 rows of P in 3 batches of {SPAN} are lost",
    f"the store refused 90 rows of P in 3 batches of {SPAN}; they are set aside in "
    "the spool",
    "the spool's file was damaged at 2026-11-28T17:00:00Z: what waited in it was set aside",
    f"90 rows of P in 3 batches of {SPAN} were damaged on disk and are lost",
    RECORD_MISSING,
    RECORD_LOST.format("P"),
    RUNAWAY.replace("sacctmgr show runawayjobs", "P"),
    END_UNKNOWN.format("P", "P"),
    END_CHANGED.format("P", "P"),
    PROFILE_UNKNOWN.replace("AccountingStorageTRES", "P").replace("gres/gpu:a100_3g.20gb", "P"),
    "P, index 3: Slurm says P, the inventory 7 units",
    "P, index 3: Slurm says 50 of 100 shard, the inventory 7 units",
    "shard: not reported how many are a GPU",
    "sacct: 40 more records",
    "P: cannot be run: P. Install Slurm's commands, or use REST",
    "P: no answer in 60 s. Is slurmdbd busy?",
    "P: exit status 1: P. Try the command by hand",
    "P: no answer: P. Check the address and the token file",
    "P: HTTP 401: P. Renew the token: P",
    "P: HTTP 500: P. See slurmrestd's log",
    "P: HTTP 404: P. It offers P: name one with --rest-version",
    "P: no header with JobID and State: P. Use --parsable2, without --noheader",
    "nvml: P. Install the NVIDIA driver or mount P (P: P)",
    *map(str, LACKING),
    *(f"{kind} P/A: {problem}{more}" for kind, problem in OBJECTS for more in ("", " (and 2 more)")),
    "Queue (without a name): spec.weight is 0, not a whole number from 1",
]  # fmt: skip
NAMED = {"P", "A", "XID", "GPU", "ECC", "NVLink", "MIG", "mig", "pod", "proc", "hostPID", "docs", "exporters", "md"}
NAMED |= {
    "Slurm",
    "shard",
    "sacct",
    "REST",
    "slurmdbd",
    "slurmrestd",
    "HTTP",
    "rest",
    "version",
    "JobID",
    "State",
    "parsable",
}
NAMED |= {
    "noheader",
    "nvml",
    "NVIDIA",
    "XIDs",
    "root",
    "CAP",
    "SYSLOG",
    "sources",
    "kernel",
    "log",
    "null",
    "enabled",
    "false",
}
NAMED |= {"kubelet", "true"}
NAMED |= {
    *[
        "ClusterQueue",
        "Queue",
        "PodGroup",
        "Workload",
        "uid",
        "pod",
        "flavor",
        "count",
        "gpu",
        "com",
        "nvidia",
        "shared",
        "spec",
        "status",
    ]
}
NAMED |= {
    *[
        "resourceGroups",
        "flavors",
        "flavorsUsage",
        "resources",
        "nominalQuota",
        "borrowingLimit",
        "total",
        "weight",
        "capability",
    ]
}
NAMED |= {*["deserved", "minResources", "podSets", "creationTimestamp"]}  # as Kubernetes' objects call them
NAMED |= {"Attribution", "to", "workloads"}  # the section that UNREPORTED names


@pytest.mark.parametrize("text", MESSAGES)
def test_no_english_is_left_but_names_and_every_number_is_there(text: str) -> None:
    said = found(text, "zh", lambda at: f"{at:%d/%m}")
    assert {*re.findall(r"[A-Za-z]+", said)} <= NAMED, said
    numbers = re.findall(r"\d+", re.sub(r"[0-9-]+T[0-9:]+Z", "", text))
    assert {*numbers} == {*re.findall(r"\d+", re.sub(r"\d\d/\d\d", "", said))}, said
    assert found(text, "en") == text, "English is as it was stored"


def test_what_the_kernel_said_of_an_xid_and_drivers_words_stay() -> None:
    assert (
        found(Xid(NOON, 79, detail="pid=4, name=x (y)").message, "zh")
        == "XID 79：GPU 已从总线上掉落（pid=4, name=x (y)）"
    )
    assert found("XID 79: GPU has fallen off", "zh") == "XID 79：GPU has fallen off"
    assert found("XID 79", "zh") == "XID 79"
    assert found("DOWN+DRAIN: bad fan", "zh") == "DOWN+DRAIN: bad fan"


def test_every_xid_action_and_finding_has_a_word() -> None:
    assert XIDS.keys() == MEANINGS.keys() and _ACTIONS.keys() == {*ACTIONS.values()}
    documented = Path("docs/telemetry.md").read_text().split("## Findings")[1].split(".")[0]
    assert {*re.findall(r"`(\w+)`", documented)} == NAMES.keys()


def test_advice_is_in_one_language() -> None:
    for code in (*MEANINGS, 999):
        assert advice(code).startswith(meaning(code)[0])
        assert not re.search(r"[a-z]+ (the|a|of) ", advice(code, "zh")), advice(code, "zh")
