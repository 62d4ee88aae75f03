"""What the scheduler says of jobs, in Chinese."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import scheduler
from scheduler.live import idle
from scheduler.placement.reasons import CARD_CAUSES, NODE_CAUSES
from scheduler.settings import IdlePart
from scheduler.words import CAUSES, CODES, policy, policy_act, said

QUOTA = (
    "asks for 4 to 8 units, tenant org/chem can take 2 (guaranteed 8, of it 2 used up on nodes that have failed or are "
    "in maintenance, holds 4 of at most 8, of it 2 borrowed; org holds 3 of at most 4); a job that cannot be preempted "
    "may take only its own guarantee and what nobody is guaranteed"
)
TEXTS = [
    QUOTA,
    QUOTA.replace("have failed or are", "are not ready or"),
    "0 of 1 replicas fit; 0 of 4 nodes fit: 1 in maintenance, 2 not ready, 1 failed",
    "asks for 1 unit, queue q could never hold more than 0 (guaranteed 0, holds 0)",
    "asks for 1 unit of 0 that there are; no node could hold it with everything free; 0 of 4 nodes fit: 2 reserved, "
    "1 of another pool, 4 short of cards; of 16 cards: 8 of another model, 8 in use",
    "0 of 1 replicas fit; 0 of 14 nodes fit: 13 outside pool chem.2, 1 short of cards; of 64 cards: 48 in use",
    "0 of 1 replicas fit; 0 of 14 nodes fit: 13 outside pool chem.2, 1 short of cards; of 8 cards in pool chem.2: "
    "8 in use",
    "0 of 1 replicas fit; 0 of 14 nodes fit: 14 outside pool org",
    "asks for 9 units of 8 that ordinary jobs may hold, beside 4 reserved; 1 of 2 replicas fit; 1 of 8 nodes fit",
    "with everything free no more than 1 of 2 replicas fit; 1 of 2 replicas fit; 0 of 3 nodes fit",
    "no one domain holds 2 replicas, the best 1; 0 of 3 nodes fit",
    "does not fit together with what this cycle starts",
    "would fit, but it is kept for J1, W2",
    "would fit, but what quotas leave is kept for J1",
    "1 of 2 replicas would start now",
    "would start now with 1 device instead of 2",
    "would start now with 2 units of each device instead of all",
    "would start now with 2 units of each device instead of 4",
    "would start now with 500 milli-CPU instead of 4000",
    "would start now with 5 bytes of memory instead of 6",
    "would start now with model H100 or A100",
    "would start now with pool P1",
    "expected to start by 2026-11-28T18:00:00Z, if running jobs end at their limits, the last of them J1; with 90% "
    "confidence between 2026-11-28T17:00:00Z and 2026-11-28T19:00:00Z, judging by 12 earlier estimates",
    "expected to start by 2026-11-28T18:00:00Z, if running jobs end at their limits; of 10 such times half were off by "
    "less than 3 s, one in ten was late by more than 30 s",
    "3 alike wait longer, J1 the longest",
    "waits 30 s, its bound is 20 s",
    "waits for J1, J2 to finish",
    "J1 did not finish; cancel it, or submit it without the dependency",
    "job J1 is ahead in queue Q1, and nothing overtakes it there",
    "queue Q1 is not in the settings; known are Q2, Q3",
    "queue Q1 holds no jobs; name one of Q2",
    "tenants have quotas by pool; name one of P1",
    "jobs that could give way have run too short a time; the first may in 9 s",
    "no cycle has looked at it yet",
    "held by SAM since 2026-11-28T17:00:00Z; `R` ends it".replace("`R`", "`release`"),
    "suspended by SAM since 2026-11-28T17:00:00Z; it is being stopped, then it waits again; `resume` ends it",
    "unknown: nothing of this queue was placed yet, and the scheduler gives no reason",
    "2 of higher priority wait too; 3 of 8 devices are free",
    "capacity: it asks for 4 GPUs, 3 of 8 devices in P are free; the others are held by J, Q",
    "WaitingForQuota: asks for 1 unit, tenant chem can take 0 (guaranteed 1, holds 1, of it 0 borrowed)",
    "3 of 8 devices are free: quota, fragmentation or policy holds it back",
    "has 1 of at least 2 replicas: a rank has finished, and a larger job would run it again",
    "has 1 of at least 2 replicas: one more takes 8 device units, and limits leave 4",
    "has 1 of at least 2 replicas: no more than 1 fit on empty nodes",
    "has 1 of at least 2 replicas: limits allow 4 device units in all",
    "has 1 of at least 2 replicas: nothing is free for one more that is neither guaranteed to others nor needed by "
    "waiting jobs",
    "not all of it runs",
    "it has not run for long",
    "last measured at 2026-11-28T17:00:00Z, 9m ago",
    "measured at 2026-11-28T17:00:00Z, which is yet to come",
    "the server does not know whether it is idle",
    "it would have been idle since 2026-11-28T17:00:00Z, before it began: another had its name",
    "no samples since 2026-10-04 23:59 UTC, 9h ago",
    "no events in 35 days",
]  # fmt: skip
NAMES = {*"qhmJQPWHA", "UTC", "GPU", "CPU", "MIG", "release", "resume", "org", "chem", "SAM"}


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%d/%m %H:%M}"


def test_chinese_stands_in_chinese_brackets() -> None:
    """As found: 还可占用 2 (保障 8，…) on pages that have （） everywhere else."""
    text = said(QUOTA, "zh")
    assert "还可占用 2（保障 8，其中 2 " in text and "(" not in text and ")" not in text


@pytest.mark.parametrize("text", TEXTS)
def test_no_english_is_left_but_names_and_every_number_is_there(text: str) -> None:
    found = said(text, "zh", moment)
    assert {*re.findall(r"[A-Za-z]+", found)} <= NAMES, found
    assert not re.search(r"[\u4e00-\u9fff][,:] ", found), found
    numbers = re.findall(r"\d+", re.sub(r"[0-9-]+T[0-9:]+Z", "", text))
    assert sorted(numbers) == sorted(re.findall(r"\d+", re.sub(r"\d\d/\d\d \d\d:\d\d", "", found))), found


@pytest.mark.parametrize("step", ["noticed", "warned", "proposed", "act"])
@pytest.mark.parametrize("approval", [True, False])
@pytest.mark.parametrize("then", ["shrink", "suspend", "cancel"])
def test_what_an_idle_policy_does_is_said_in_chinese(step: str, approval: bool, then: str) -> None:
    """As found on the page of a job that was reclaimed: "idle for 3m51s, ...；so it is suspended (policy ...)"."""
    part = IdlePart.model_validate({"warn": "30m", "after": "2h", "then": then, "approval": approval, "queues": ["q"]})
    text = idle.words(step, part, idle.Idle(231.0, 1_790_000_000.0))
    for whole in (text, f"suspended by SAM since 2026-11-28T17:00:00Z: {text}; `resume` ends it"):
        found = said(whole, "zh", moment)
        assert {*re.findall(r"[A-Za-z]+", found)} <= {*"qhms", "SAM", "resume"}, found
        assert "3m51s" in found
    assert policy_act(part.summary()) == then


@pytest.mark.parametrize("approval", [True, False])
@pytest.mark.parametrize(
    "whose", [{}, {"tenants": ["chem"]}, {"queues": ["q", "h"]}, {"tenants": ["a"], "queues": ["b"]}]
)
@pytest.mark.parametrize("then", ["shrink", "suspend", "cancel"])
def test_an_idle_policy_is_said_in_chinese(whose: dict[str, list[str]], then: str, approval: bool) -> None:
    part = IdlePart.model_validate({"warn": "30m", "after": "2h", "then": then, "approval": approval, **whose})
    chinese = policy(part.summary(), "zh")
    assert policy(part.summary(), "en") == part.summary()
    assert not re.search(r"warn|after|all|tenants|queues|operator|" + then, chinese)
    assert "30m" in chinese and "2h" in chinese and ("同意" in chinese) == approval
    for name in (*whose.get("tenants", ()), *whose.get("queues", ())):
        assert name in chinese


def test_every_cause_and_code_of_the_scheduler_has_a_word() -> None:
    assert CAUSES.keys() == {*NODE_CAUSES.values(), *CARD_CAUSES.values()}
    folder = Path(scheduler.__file__).parent
    named = {
        code
        for path in (
            folder / "cycle" / "reasons.py",
            folder / "placement" / "reasons.py",
            folder / "cycle" / "rights.py",
        )
        for names, codes in re.findall(r"^([A-Z_, ]+) = ((?:\"[A-Za-z]+\"(?:, )?)+)$", path.read_text(), re.MULTILINE)
        for code in re.findall(r"[A-Za-z]+", codes)
        if names
    }
    assert len(named) > 12 and named <= CODES.keys()


def test_english_keeps_its_words_and_gets_the_readers_clock_and_other_schedulers_words_stay() -> None:
    text = "expected to start by 2026-11-28T18:00:00Z, if running jobs end at their limits"
    assert said(text, "en", moment) == "expected to start by 28/11 18:00, if running jobs end at their limits"
    assert said(text, "en") == text
    assert said("QOSMaxJobsPerUserLimit", "zh") == "QOSMaxJobsPerUserLimit"
