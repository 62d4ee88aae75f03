"""What holds at this moment: who is allocated what and uses it how, and which jobs wait, and why.

asking   how its statements are asked, and with which filters
held     the newest instant for which facts came; allocations then, with use, price an hour and waste so far
waiting  jobs that wait: rank, reason, expected start
"""

from billing.insights.now.asking import ASKED, Ask, asking
from billing.insights.now.held import IDLE_BELOW, LATE, Moment, held, moment
from billing.insights.now.waiting import Reported, reported, waiting

__all__ = [
    "ASKED", "IDLE_BELOW", "LATE", "Ask", "Moment", "Reported", "asking", "held", "moment", "reported", "waiting",
]  # fmt: skip
