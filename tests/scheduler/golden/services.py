"""How random services are scaled, with the numbers behind it and their cold starts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from scheduler.model import Request
from scheduler.serverless import Service, Services, Use
from scheduler.windows import Window
from tests.scheduler.golden.worlds import plain


def history(number: int) -> Iterator[tuple[str, Any]]:
    dice = random.Random(f"service {number}")

    def drawn() -> Service:
        windows = [
            Window(0, 1, days=("thu",)),
            Window(dice.randint(1, 3), None, "Asia/Kolkata", ("mon", "thu"), "05:30", "06:30"),
        ]
        return Service(
            "chat", "a", "q", Request(1), dice.choice([1, 3, None]), dice.randint(0, 1), dice.randint(2, 6),
            dice.choice([100.0, 300.0]), dice.choice([0.0, 30.0]), dice.randint(0, 2), dice.choice(["", "bot"]),
            use=dice.choice([None, Use(0.5, 60.0)]), windows=tuple(dice.sample(windows, dice.choice([0, 0, 1, 2]))),
        )  # fmt: skip

    services = Services([drawn()])
    state, now = services.states["chat"], 0.0
    jobs = {}
    for _ in range(40):
        now += dice.choice([0.0, 3.0, 10.0, 40.0, 110.0])
        what = dice.choice(
            ["observe"] * 3 + ["scale"] * 4 + ["launched", "launched", "ready", "ready", "again", "ended"]
        )
        name = dice.choice(sorted(state.replicas)) if state.replicas else ""
        match what:
            case "observe":
                use = dice.choice([None, 0.0, 0.2, 0.48, 0.8, 1.0])
                state.observe(dice.choice([0, 0, 2, 9]), dice.choice([0, 0, 1]), now, use)
            case "scale":
                scaling = state.scale(now)
                jobs |= {one.job_id: one for one in scaling.submit}
                for one in scaling.submit:
                    services.submitted(one, now)
                for gone in scaling.stop:
                    services.ended(jobs[gone], now)
                what += f" {plain(scaling.stop)} {[one.job_id for one in scaling.submit]} {scaling.reason}"
            case "launched" if name:
                services.launched(jobs[name], dice.choice([1, 7]), now)
            case "ready" if name:
                what += f" {services.ready(jobs[name], now):g}"
            case "again" if name:
                services.waits_again(jobs[name], now)
            case "ended" if name:
                services.ended(jobs[name], now, dice.random() < 0.6)
        if dice.random() < 0.04:
            services.reconfigure([drawn()] if dice.random() < 0.7 else [])
        costs = (state.cold_starts, state.cold_unit_seconds, state.failures, state.serial)
        yield f"{now:g} {what}", plain((state.by_state(), costs, state.desired(now), state.why(now)))
    yield "in the end", plain([one.submitted_at for one in jobs.values()])
