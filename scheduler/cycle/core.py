"""The state with its decisions, as used by the simulator and the live loop (scheduler.records.book)."""

from __future__ import annotations

from scheduler.cycle.plan import CyclePlan, plan
from scheduler.cycle.state import State


class Core(State):
    def plan(self, now: float) -> CyclePlan:
        """What to do now. Changes nothing but the recorded expected starts, whose errors are measured later."""
        found = plan(self, now)
        self.expect(found.expected, now)
        return found
