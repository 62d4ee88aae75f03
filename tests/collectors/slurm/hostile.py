"""What users write into names, comments and wckeys to forge records, to hide theirs, or just because they can."""

from __future__ import annotations

import random

FORGED_LINE = "900|900|tiny|root|COMPLETED|normal|2026-10-01T09:00:00|2026-10-01T10:00:00|2026-10-01T12:00:00|gpu"
TEXTS = (
    "x|y",
    "|" * 40,
    f"x\n{FORGED_LINE}|ml-vision",
    "a\nJobId=902 JobName=q\n   Account=ml-vision\n   JobState=RUNNING\n     Nodes=node1 GRES=gpu:4(IDX:0-3)\n",
    'x"}], "jobs": [{"job_id": 900, "account": "ml-vision", "job_state": "RUNNING", "gres_detail": ["gpu:4(IDX:0-3)"]',
    "\\", '\\"', "\\u0000\\ud800", "`id`", "$(id)", "; true", "' OR 1=1 --", "%s%n{0}",
    "JobState=COMPLETED EndTime=2026-10-01T10:00:00", "CANCELLED by 0", "gres/gpu=0", "gpu:0(IDX:)",
    "r&d energy", "ünï ∞ \u202egnp.exe", "\u2028\u2029\x85", "\udcff\udcfe", "\r\n\r\n", "\t\x01\x1f\x7f", "a" * 900,
    "JobID|JobIDRaw|State", "7_[0-9]", "None assigned", "null", "{", "[]", "-1", "NodeName=node1 State=DOWN",
)  # fmt: skip
"""\\udcff is a byte that is not UTF-8, as Python names it in arguments."""


def text(draw: random.Random) -> str:
    """One or two of them, with other letters between; without the one that nobody can write."""
    words = [draw.choice(TEXTS) for _ in range(draw.randrange(1, 3))]
    between = "".join(chr(draw.choice((draw.randrange(1, 127), draw.randrange(160, 0x2FFF)))) for _ in range(3))
    return between.join(words)[:1000]
