"""The report: JSON for programs, an HTML page for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alerts.acceptance.checks import Check, Runs, accepted, throughputs
from alerts.acceptance.measures import measure
from alerts.acceptance.plan import Plan
from alerts.errors import AlertError
from warehouse.json_text import parse_json
from warehouse.private_files import naming, users_file, users_folder

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Report:
    """measured: whether the runs were made here, or recorded where they were; made-up ones prove nothing."""

    plan: Plan
    runs: Runs
    checks: Sequence[Check]
    source: str
    measured: bool
    at: datetime

    @property
    def accepted(self) -> bool:
        return self.measured and accepted(list(self.checks))

    @property
    def verdict(self) -> str:
        if not self.measured:
            return "NOT MEASURED"
        return "accepted" if self.accepted else "not accepted"

    def document(self) -> dict[str, Any]:
        rows = []
        for case, of_case in self.runs.items():
            for role, run in of_case.items():
                found = measure(run, self.plan.warmup if role == "victim" else 0)
                rows.append(
                    {
                        "case": case,
                        "role": role,
                        "steps": len(run.seconds),
                        "throughput": found and found.throughput,
                        "p50_seconds": found and found.p50,
                        "p99_seconds": found and found.p99,
                        "jitter": found and found.jitter,
                        "status": run.status,
                        "error": run.error,
                        "about": dict(run.about),
                    }
                )
        return {
            "platform": self.plan.name,
            "at": self.at.isoformat(),
            "source": self.source,
            "measured": self.measured,
            "verdict": self.verdict,
            "accepted": self.accepted,
            "checks": [asdict(check) for check in self.checks],
            "runs": rows,
            "throughputs": throughputs(self.plan, self.runs),
            "plan": self.plan.model_dump(mode="json"),
        }

    def write(self, folder: Path) -> tuple[Path, Path]:
        """report.json and report.html in the folder, which is made."""
        users_folder(folder)
        document = self.document()
        paths = folder / "report.json", folder / "report.html"
        page = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
        page.filters["shown"] = shown
        texts = (
            json.dumps(document, indent=2, ensure_ascii=False) + "\n",
            page.get_template("report.html").render(document),
        )
        for path, text in zip(paths, texts, strict=True):
            with naming(path), open(path, "w", encoding="utf-8", opener=users_file) as file:
                file.write(text)
        return paths


def shown(value: object) -> str:
    """A number for people; unknown is a dash, never 0."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def earlier_throughputs(path: Path) -> Mapping[str, float]:
    """Throughputs from an earlier report.json. Errors: AlertError if it is not one, or was not measured."""
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
        found = {str(case): float(value) for case, value in document["throughputs"].items()}
        measured = document["measured"]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AlertError(str(path), "not a report of the acceptance suite", "Give its report.json") from error
    if not measured:
        raise AlertError(str(path), "its numbers are simulated", "Compare with a measured report")
    return found
