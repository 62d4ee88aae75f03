"""Secrets come from the environment or from a file, are read when they are used, and are never shown.

token: {env: SLACK_URL}    or    token: {file: /run/secrets/slack}
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from pydantic import model_validator

from alerts.errors import AlertError
from alerts.rule import Part

HIDDEN = "***"


class Secret(Part):
    """Where a secret is; not the secret."""

    env: str = ""
    file: str = ""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.env) == bool(self.file):
            raise ValueError("give env (a variable's name) or file (a path), one of them; never the secret itself")
        return self

    def read(self) -> str:
        """Errors: AlertError naming the place, if there is nothing."""
        if self.env:
            found = os.environ.get(self.env, "")
            where = f"environment variable {self.env}"
        else:
            where = f"file {self.file}"
            try:
                found = Path(self.file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise AlertError(
                    where, "a secret cannot be read from it", "Check the path and who may read it"
                ) from error
        if not found:
            raise AlertError(where, "holds no secret", "Set it where gpuledger runs")
        return found


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return text
