"""Finds profiles of exporters and services: YAML files, built-in ones and those of a site."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from collectors.errors import CollectorError
from warehouse.written_files import in_line, known_keys, read_yaml, unknown_key


class Named(BaseModel):
    """What has a name."""

    name: str


P = TypeVar("P", bound=Named)


class ProfileFiles(Generic[P]):
    """The files of one kind of profile. guide: the document that lists the keys."""

    def __init__(self, folder: Path, kind: type[P], guide: str) -> None:
        self._folder, self._kind, self._guide = folder, kind, guide

    def read(self, path: Path | str) -> P:
        """Errors: CollectorError in one line that names the file, the key, what was found there and what fits."""
        where = str(path)
        keys = "It has the keys " + ", ".join(self._kind.model_fields)
        content = read_yaml(path, "a profile", keys if Path(path).exists() else self._hint(), CollectorError)
        try:
            return self._kind.model_validate(content)
        except ValidationError as mistake:
            raise self._first_error(where, mistake, content) from mistake

    @cached_property
    def built_in(self) -> tuple[P, ...]:
        """Those that come with gpuledger, by name."""
        return tuple(self.read(path) for path in sorted(self._folder.glob("*.yaml")))

    def named(self, name: str) -> P:
        """By its name, or the one in a file of the user's: whatever has a dot or a slash is a file."""
        if "/" in name or "." in name:
            return self.read(name)
        for profile in self.built_in:
            if profile.name == name:
                return profile
        raise CollectorError(f"profile {name!r}", "unknown", self._hint())

    def _hint(self) -> str:
        known = ", ".join(path.stem for path in sorted(self._folder.glob("*.yaml")))
        return f"Known: {known}; or the path of a file such as ./mine.yaml"

    def _first_error(self, where: str, mistake: ValidationError, content: object) -> CollectorError:
        """The first thing that does not fit; an entry of a list by the name that it has there."""
        first = mistake.errors()[0]
        key, here = "", content
        for step in first["loc"]:
            key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
            if isinstance(here, dict):
                here = here.get(step)
            elif isinstance(here, list) and isinstance(step, int):
                here = here[step]
            if isinstance(step, int) and isinstance(here, dict) and here.get("names"):
                key += f" ({here['names'] if isinstance(here['names'], str) else here['names'][0]})"
        place = f"{in_line(where, first['loc'], content)}: {key}" if key else where
        found = "" if isinstance(first["input"], dict | list | tuple | BaseModel) else f"found {first['input']!r}; "
        if first["type"] == "extra_forbidden":
            known = known_keys(first["loc"][:-1], self._kind)
            return CollectorError(place, unknown_key(str(first["loc"][-1]), known), f"See {self._guide}")
        what = "missing" if first["type"] == "missing" else found + first["msg"].removeprefix("Value error, ")
        return CollectorError(place, what)
