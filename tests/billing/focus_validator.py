"""The FinOps Foundation's validator for FOCUS, run on a file: which of its rules fail.

`make focus-validator` builds its environment (it needs Python 3.12). Its traps: it reads a file of currency codes
relative to the working directory, writes its log there, and exits 0 whatever it found.

    python -m tests.billing.focus_validator FILE
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-focus"
CRITERIA = (
    "ACCOUNT_NAMING_SUPPORTED", "MULTIPLE_PRICING_CATEGORIES_SUPPORTED", "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED",
    "MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED", "NEGOTIATED_PRICING_SUPPORTED", "PUBLIC_PRICE_LIST_SUPPORTED",
    "USAGE_MEASUREMENT_SUPPORTED", "UNIT_PRICING_SUPPORTED", "SUB_ACCOUNT_SUPPORTED",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED", "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
    "PRICING_BILLING_CURRENCY_DIFFERENCES_SUPPORTED", "VIRTUAL_CURRENCY_SUPPORTED", "REGION_SUPPORTED",
    "TAGGING_SUPPORTED",
)  # fmt: skip
"""All that our files have but AVAILABILITY_ZONE, and CAPACITY_RESERVATION and COMMITMENT_DISCOUNT, whose rules are
broken in the model of 2.2.1."""


class ValidatorMissing(Exception):  # noqa: N818
    """Its environment is not there; says how to get it."""


def failing_rules(file: Path) -> set[str]:
    """The ids of the failing rules of FOCUS 1.2 that stand for themselves, not for others that failed below them."""
    program = ENVIRONMENT / "bin" / "focus-validator"
    packages = sorted((ENVIRONMENT / "lib").glob("python*/site-packages/focus_validator"))
    if not program.exists() or not packages:
        raise ValidatorMissing("the FOCUS validator is not installed: make focus-validator (needs Python 3.12)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "focus_validator").symlink_to(packages[0])
        command = [
            program, "--data-file", file.resolve(), "--validate-version", "1.2", "--block-download",
            "--applicability-criteria", ",".join(CRITERIA), "--output-type", "unittest",
            "--output-destination", folder / "result.xml",
        ]  # fmt: skip
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ}, check=False)
        result = folder / "result.xml"
        if not result.exists():
            raise RuntimeError(f"the validator wrote no result: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        return _failing(result)


def _failing(result: Path) -> set[str]:
    cases = list(ElementTree.parse(result).getroot().iter("testcase"))
    if len(cases) < 100:
        raise RuntimeError(f"the validator made {len(cases)} checks only")
    failed = {}
    for case in cases:
        failure = case.find("failure")
        if failure is not None:
            failed[str(case.get("name")).split(" ")[0].rstrip(":")] = f"{failure.get('message')} {failure.text}"
    return {rule for rule, message in failed.items() if "Composite" not in message}


if __name__ == "__main__":
    print("\n".join(sorted(failing_rules(Path(sys.argv[1])))))
