"""Prometheus's own tool, for tests of what it reads; nothing is checked where it is not installed."""

from __future__ import annotations

import shutil
import subprocess

PROMTOOL = shutil.which("promtool")
"""On Debian, apt-get install prometheus brings it; tests/alerts/test_prometheus.py says so where it is missing."""


def check_metrics(text: str) -> None:
    """`promtool check metrics` on an exposition: it must be content, and say nothing."""
    if PROMTOOL is not None:
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), text
