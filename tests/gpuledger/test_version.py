"""What the whole program answers without a command."""

from __future__ import annotations

import pytest

from gpuledger import __version__
from gpuledger.cli import main


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "close"]], ids=" ".join)
def test_the_version_is_one_line_and_needs_no_command(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    said = capsys.readouterr()
    assert (int(done.value.code or 0), said.out, said.err) == (0, f"{__version__}\n", "")
