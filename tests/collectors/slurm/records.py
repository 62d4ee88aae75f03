"""Slurm's records as its JSON writes them, in old and in new versions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

TEN = int(datetime(2026, 10, 1, 10, tzinfo=UTC).timestamp())
TRES = [
    {"type": "cpu", "name": "", "id": 1, "count": 8},
    {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
]


def _number(value: int | None, new: bool) -> Any:
    return {"set": value is not None, "infinite": False, "number": value or 0} if new else value


def accounted(new: bool = False, **more: Any) -> dict[str, Any]:
    """Accounting's of job 127, task 4 of array 123: 2 GPUs of g[1-2] from 10 to 11, then cancelled."""
    return {
        "job_id": 127,
        "array": {"job_id": 123, "task_id": _number(4, new)},
        "het": {"job_id": 0, "job_offset": _number(None, new)},
        "cluster": "slurm",
        "user": "ann",
        "account": "chem",
        "association": {"account": "chem", "cluster": "slurm", "partition": None, "user": "ann"},
        "partition": "train",
        "qos": "normal",
        "priority": _number(4000, new),
        "state": {"current": ["CANCELLED"] if new else "CANCELLED", "reason": "None"},
        "time": {
            "submission": TEN - 3600,
            "start": TEN,
            "end": TEN + 3600,
            "elapsed": 3600,
            "suspended": 0,
            "limit": _number(60, new),
        },
        "nodes": "g[1-2]",
        "tres": {"allocated": TRES, "requested": TRES},
        "exit_code": {"status": ["SUCCESS"] if new else "SUCCESS", "return_code": _number(0, new)},
        "kill_request_user": "root",
        "wckey": {"wckey": "", "flags": []},
        "steps": [],
    } | more


def controlled(new: bool = False, **more: Any) -> dict[str, Any]:
    """The controller's of job 9: 3 GPUs of g[1-2] since 10, still running."""
    return {
        "job_id": 9,
        "array_job_id": _number(0, new),
        "array_task_id": _number(None, new),
        "cluster": "slurm",
        "user_name": "ann",
        "account": "chem",
        "partition": "train",
        "qos": "normal",
        "job_state": ["RUNNING"] if new else "RUNNING",
        "state_reason": "None",
        "submit_time": _number(TEN - 60, new),
        "start_time": _number(TEN, new),
        "end_time": _number(TEN + 86_400, new),
        "resize_time": _number(0, new),
        "nodes": "g[1-2]",
        "node_count": _number(2, new),
        "tres_alloc_str": "cpu=8,gres/gpu=3",
        "tres_req_str": "cpu=8,gres/gpu=3",
        "tres_per_node": "",
        "gres_detail": ["gpu:h100:2(IDX:0-1)", "gpu:h100:1(IDX:1)"],
        "priority": _number(7, new),
        "restart_cnt": 0,
        "time_limit": {"set": True, "infinite": True, "number": 0},
        "exit_code": _number(0, new),
    } | more
