"""Record a real run as a fixture: each cycle's readings as a line of JSON, beside what nvidia-smi said at the time.

    python -m collectors.nvml.record run.jsonl --cycles 60 --interval 2

The first line tells the driver and the devices. A recording in tests/collectors/nvml/recordings/ is checked by the
tests: whatever both tell must agree.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collectors.nvml.collector import NvmlCollector, NvmlCycle
from collectors.nvml.library import Nvml, NvmlLibraryError

SMI_FIELDS = (
    "uuid",
    "mig.mode.current",
    "memory.used",
    "memory.total",
    "temperature.gpu",
    "power.limit",
    "utilization.gpu",
    "power.draw",
    "clocks.sm",
)
MEBIBYTE = 1 << 20
TOLERANCES: Mapping[str, tuple[str, float, float]] = {
    "memory.total": ("memory_total_bytes", MEBIBYTE, 2 * MEBIBYTE),
    "memory.used": ("memory_used_bytes", MEBIBYTE, 64 * MEBIBYTE),
    "temperature.gpu": ("temperature_celsius", 1.0, 3.0),
    "power.limit": ("power_limit_watts", 1.0, 1.0),
}
"""Field of nvidia-smi -> metric, its unit in ours, and how far apart two readings a moment apart may be."""


def smi(fields: Sequence[str] = SMI_FIELDS) -> list[dict[str, str]] | None:
    """What nvidia-smi says of each GPU; None where there is no nvidia-smi or it fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 (fixed words)
    return parse_smi(done.stdout, fields) if done.returncode == 0 else None


def parse_smi(text: str, fields: Sequence[str] = SMI_FIELDS) -> list[dict[str, str]]:
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)]


def line_of(cycle: NvmlCycle, now: datetime, nvidia_smi: list[dict[str, str]] | None) -> dict[str, Any]:
    """One cycle as JSON. readings: of DeviceReading; smi: None where there was none."""
    return {
        "at": now.isoformat(),
        "interval_seconds": cycle.interval_seconds,
        "readings": [asdict(reading) for reading in cycle.readings],
        "rows": cycle.collected.rows,
        "dropped": dict(cycle.collected.dropped),
        "smi": nvidia_smi,
    }


def disagreements(line: Mapping[str, Any]) -> list[str]:
    """Where a cycle's readings and nvidia-smi tell different things; empty where they agree or one is silent."""
    if line["smi"] is None:
        return []
    wholes = {one["device_id"]: one["readings"] for one in line["readings"] if not one["partition_id"]}
    found: list[str] = []
    for row in line["smi"]:
        readings = wholes.get(row["uuid"])
        if readings is None:
            found.append(f"{row['uuid']}: nvidia-smi has it, the readings do not")
            continue
        for name, (metric, unit, apart) in TOLERANCES.items():
            reading = readings.get(metric)
            if reading is None or reading["value"] is None or not row[name].replace(".", "", 1).isdigit():
                continue
            other = float(row[name]) * unit
            if abs(other - reading["value"]) > apart:
                found.append(f"{row['uuid']}: {metric} {reading['value']:g}, nvidia-smi {other:g}")
    return found


def record(collector: NvmlCollector, cycles: int, interval: float) -> Iterator[dict[str, Any]]:
    """Lines of as many cycles, `interval` seconds apart."""
    for _ in range(cycles):
        now = datetime.now(UTC)
        yield line_of(collector.collect(now), now, smi())
        time.sleep(max(0.0, interval - (datetime.now(UTC) - now).total_seconds()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m collectors.nvml.record", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="JSON lines; must not exist")
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--interval", type=float, default=2.0, help="seconds")
    options = parser.parse_args(arguments)
    nvml = Nvml()
    try:
        nvml.start()
        driver = nvml.driver_version()
    except NvmlLibraryError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    collector = NvmlCollector(interval_seconds=options.interval, kernel_log=None)
    differing = 0
    with options.file.open("x") as file:
        file.write(json.dumps({"driver": driver, "started_at": datetime.now(UTC).isoformat()}) + "\n")
        for line in record(collector, options.cycles, options.interval):
            file.write(json.dumps(line, default=str) + "\n")
            file.flush()
            differing += bool(disagreements(line))
    collector.close()
    sys.stdout.write(f"{options.cycles} cycles in {options.file}; {differing} differ from nvidia-smi\n")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
