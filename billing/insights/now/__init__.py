"""The present: current allocations and their use, and jobs that wait, with the reason.

asking   how the statements are run, with which filters
held     the newest instant with facts; the allocations then, with use, price per hour and waste so far
waiting  waiting jobs: rank, reason, expected start
"""

from billing.insights.now.asking import ASKED, Ask, asking
from billing.insights.now.held import IDLE_BELOW, LATE, Moment, held, isolation, moment
from billing.insights.now.waiting import Due, Reported, due, reported, waiting

__all__ = [
    "ASKED", "IDLE_BELOW", "LATE", "Ask", "Due", "Moment", "Reported", "asking", "due", "held", "isolation", "moment",
    "reported", "waiting",
]  # fmt: skip
