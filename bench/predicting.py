"""How near the waits come that `simulate capacity` predicts from books: random fortnights of jobs are placed by the
reference scheduler on 32 GPUs, and predicted from those books for other numbers, on which the scheduler then places
them, too.

python -m bench.predicting [SEED...]      # by default 11 12 13; some CPU minutes

One line for each fortnight, kind of settings and number of GPUs: mean and P95 of the waits in hours, real and
predicted.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

THERE, EACH, DAYS = 32, 8, 12
QUEUE = "queues: [{name: q, policy: %s}]\n"
SETTINGS = {
    "first come": QUEUE % "fifo",
    "fair share": QUEUE % "fair_share, half_life: 7d",
    "quotas": QUEUE
    % "fair_share, half_life: 7d"
    + "tenants:\n  - {name: a, guaranteed: 8, limit: 16}\n  - {name: b, guaranteed: 8, limit: 20}\n"
    "  - {name: c, guaranteed: 4}\n",
}


def trace(path: Path, seed: int) -> None:
    """About 450 jobs of 1 to 16 GPUs that together ask for 21 to 29 of the 32; users overstate their time limits."""
    draw, at, number = random.Random(seed), 0.0, 0
    lines = ["job_id,submitted_at,run_seconds,gpus,tenant,queue,limit_seconds"]
    while at < DAYS * 86_400:
        gpus = draw.choices([1, 2, 4, 8, 16], [40, 20, 15, 20, 5])[0]
        run = min(216_000, max(120, math.exp(draw.gauss(math.log(5400), 1.6))))
        submitted = datetime(2026, 9, 1, tzinfo=UTC) + timedelta(seconds=int(at))
        tenant, limit = draw.choices("abc", [5, 3, 2])[0], run * draw.choice([1.1, 2, 4])
        lines.append(f"j{number},{submitted:%Y-%m-%dT%H:%M:%SZ},{run:.0f},{gpus},{tenant},q,{limit:.0f}")
        at, number = at + draw.expovariate(1 / 2400), number + 1
    path.write_text("\n".join(lines) + "\n")


def answer(*arguments: str, store: str = "chdb://memory") -> Any:
    command = [sys.executable, "-m", "gpuledger", *arguments]
    done = subprocess.run(command, env={**os.environ, "GPULEDGER_STORE": store}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout) if "json" in arguments else None


def main() -> None:
    print(" seed  settings    GPUs  mean  predicted    P95  predicted  times")
    with tempfile.TemporaryDirectory() as folder:
        for seed in [int(one) for one in sys.argv[1:]] or [11, 12, 13]:
            jobs = Path(folder) / f"{seed}.csv"
            trace(jobs, seed)
            for name, settings in SETTINGS.items():
                config, store = Path(folder) / "settings.yaml", f"chdb://{folder}/{seed}-{name.replace(' ', '-')}"
                config.write_text(settings)
                how = ["--machines", f"{THERE // EACH}x{EACH}:H100", "--config", str(config)]
                answer("simulate", str(jobs), *how, "--into-store", store=store)
                answer("close", store=store)
                for gpus in range(THERE - EACH, THERE + 2 * EACH + 1, EACH):
                    on = ["--machines", f"{gpus // EACH}x{EACH}:H100", "--config", str(config), "--format", "json"]
                    was = answer("simulate", str(jobs), *on)["runs"][0]["measures"]
                    asked = ["--model", "H100", "--gpus", str(gpus - THERE), "--format", "json"]
                    found = answer("simulate", "capacity", *asked, store=store)["changed"]
                    mean, p95 = was["wait_mean_seconds"] / 3600, was["wait_p95_seconds"] / 3600
                    times = f"{found['p95'] / 3600 / p95:5.2f}" if p95 else "    -"
                    predicted = found["mean"] / 3600, found["p95"] / 3600
                    shown = f"{mean:4.1f}  {predicted[0]:9.1f}  {p95:5.1f}  {predicted[1]:9.1f}  {times}"
                    print(f"{seed:5}  {name:10}  {gpus:4}  {shown}", flush=True)


if __name__ == "__main__":
    main()
