"""The present: current allocations and their use, and jobs that wait, with the reason.

asking   how the statements are run, with which filters
held     the newest instant with facts; the allocations then, with use, price per hour and waste so far
free     available GPUs that nobody has, and what an hour of them costs
waiting  waiting jobs: rank, reason, expected start
wanted   what one of them waits for, and who holds it
quotas   what schedulers guarantee tenants, and what they hold and ask for
"""

from billing.insights.now.asking import ASKED, Ask, asking
from billing.insights.now.free import Free, free
from billing.insights.now.held import IDLE_BELOW, LATE, Moment, held, isolation, moment
from billing.insights.now.quotas import quotas
from billing.insights.now.waiting import Due, Reported, due, reported, waiting
from billing.insights.now.wanted import QUOTA, Wanted, wanted

__all__ = [
    "ASKED", "IDLE_BELOW", "LATE", "QUOTA", "Ask", "Due", "Free", "Moment", "Reported", "Wanted", "asking", "due",
    "free", "held", "isolation", "moment", "quotas", "reported", "waiting", "wanted",
]  # fmt: skip
