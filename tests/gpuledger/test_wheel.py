"""The distribution, installed as a wheel beside others' packages that have our floors' names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuledger import __version__

REPO = Path(__file__).parents[2]
UV = shutil.which("uv") or shutil.which(REPO / ".venv-uv" / "bin" / "uv")
pytestmark = pytest.mark.skipif(UV is None, reason="no uv here")
OTHERS = ("scheduler", "alerts", "billing", "access", "api", "documents")


def uv(*arguments: str | Path) -> None:
    assert UV is not None
    done = subprocess.run([UV, *arguments], capture_output=True, text=True, check=False, cwd=REPO)
    assert done.returncode == 0, done.stderr


def others_wheel(folder: Path) -> Path:
    """Somebody's packages of these names."""
    path, facts = folder / "others-1.0-py3-none-any.whl", "others-1.0.dist-info"
    files = {f"{name}/__init__.py": f'WHOSE = "their {name}"\n' for name in OTHERS}
    files[f"{facts}/METADATA"] = "Metadata-Version: 2.1\nName: others\nVersion: 1.0\n"
    files[f"{facts}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{facts}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{facts}/RECORD"])
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


class Installed:
    """An environment of its own. What we depend on is borrowed from this one."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        uv("venv", "--quiet", "--python", sys.executable, folder)
        (self.site,) = folder.glob("lib/python*/site-packages")
        borrowed = next(path for path in sys.path if path.endswith("site-packages"))
        self._environment = {**os.environ, "PYTHONPATH": borrowed, "HOME": str(folder)}

    def install(self, wheel: Path) -> None:
        uv("pip", "install", "--quiet", "--no-deps", "--offline", "--python", self.python, wheel)

    def uninstall(self, name: str) -> None:
        uv("pip", "uninstall", "--quiet", "--python", self.python, name)

    def packages(self) -> set[str]:
        return {path.name for path in self.site.iterdir() if (path / "__init__.py").exists()}

    def said(self, *command: str | Path) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.python.parent, env=self._environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python_says(self, code: str) -> str:
        return self.said(self.python, "-c", code).strip()


def test_an_installation_leaves_names_to_others_and_theirs_leave_ours(tmp_path: Path) -> None:
    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path, REPO)
    here = Installed(tmp_path / "environment")
    here.install(others_wheel(tmp_path))
    here.install(next(tmp_path.glob("gpuledger-*.whl")))
    assert here.packages() == {*OTHERS, "gpuledger"}

    theirs = "".join(f"import {name}; assert {name}.WHOSE == 'their {name}'\n" for name in OTHERS)
    used = "from gpuledger.client import Client\nclient = Client('http://127.0.0.1:9')\n"
    alone = "import sys; print(sorted({name.partition('.')[0] for name in sys.modules} & {'fastapi', 'warehouse'}))"
    assert here.python_says(theirs + used + alone) == "[]"
    assert here.python_says(used + theirs + alone) == "[]"
    command = here.python.with_name("gpuledger")
    assert here.said(command, "--version").strip() == __version__
    assert "room" in here.said(here.python, "-m", "gpuledger", "scheduler", "--help")  # our floor of that name
    assert "ElasticJob" in here.said(here.python.with_name("kubectl-gpuledger"), "--help")
    here.said(command, "init", "--store", f"chdb://{tmp_path}/store")  # migrations and SQL come along

    here.uninstall("others")
    assert here.said(command, "--version").strip() == __version__
    here.install(others_wheel(tmp_path))
    here.uninstall("gpuledger")
    assert here.packages() == set(OTHERS)
    here.python_says(theirs)
