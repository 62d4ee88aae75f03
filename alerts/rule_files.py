"""Reading rules: those shipped beside this file, and a site's own folder over them.

A site's file with a shipped rule's name and `extends: true` changes the keys that it has (`parameters` one by one);
without `extends` it takes the shipped rule's place. `enabled: false` ends a rule.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alerts.errors import AlertError
from alerts.rule import Rule
from alerts.sources import ENGINE, SOURCES
from warehouse.written_files import first_error, read_yaml

SHIPPED = Path(__file__).parent / "rules"
LANGUAGES = Path(__file__).parent / "languages"
"""The shipped rules' texts in other languages, a file each."""
TEXTS = ("summary", "description", "action")


def load_rules(folder: Path | None = None) -> list[Rule]:
    """All rules that are enabled, by name. folder: the site's own.

    Errors: AlertError naming the file and the key, for the first that does not fit.
    """
    contents = dict(_shipped())
    if folder is not None:
        if not folder.is_dir():
            raise AlertError(str(folder), "not a folder of rules", "Give one with a .yaml file for each rule")
        for path, name, content in _read(folder):
            shipped = contents.get(name)
            if content.pop("extends", False):
                if shipped is None:
                    raise AlertError(f"{path}: extends", f"no rule {name!r} is shipped", _names(contents))
                content = _merged(shipped, content, path)
            contents[name] = (path, content)
    rules = [_rule(path, content) for path, content in contents.values()]
    return sorted((rule for rule in rules if rule.enabled), key=lambda rule: rule.name)


def version_of(rules: Iterable[Rule]) -> str:
    """A hash of the rules' content, which identifies the rules of an evaluation."""
    digest = hashlib.sha256()
    for rule in rules:
        digest.update(rule.model_dump_json().encode())
    return digest.hexdigest()[:12]


@functools.cache
def _shipped() -> Mapping[str, tuple[Path, dict[str, Any]]]:
    """Read once: some fifty files of YAML take half a second."""
    found = {name: (path, content) for path, name, content in _read(SHIPPED)}
    for path in LANGUAGES.glob("*.yaml"):
        texts = read_yaml(path, "texts of alert rules", "It has a key for each rule", AlertError)
        for name, (_, content) in found.items():
            content.setdefault("languages", {})[path.stem] = texts[name]
    return found


def _read(folder: Path) -> Iterable[tuple[Path, str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.yaml")):
        content = read_yaml(path, "an alert rule", "It has the keys name, query, condition, summary", AlertError)
        name = content.get("name")
        if name != path.stem:
            raise AlertError(f"{path}: name", f"found {name!r}", f"The name is the file's: {path.stem}")
        yield path, path.stem, content


def _merged(shipped: tuple[Path, dict[str, Any]], changes: dict[str, Any], path: Path) -> dict[str, Any]:
    home, content = shipped
    merged = {**content, **changes}
    if "parameters" in changes and isinstance(changes["parameters"], dict):
        merged["parameters"] = {**content.get("parameters", {}), **changes["parameters"]}
    if changed := {*TEXTS} & changes.keys():  # what was translated is no longer said
        merged["languages"] = {
            code: {name: text for name, text in texts.items() if name not in changed}
            for code, texts in content.get("languages", {}).items()
        } | changes.get("languages", {})
    if "query" in content:
        merged["query"] = str(path.parent / changes["query"] if "query" in changes else home.parent / content["query"])
    return merged


def _rule(path: Path, content: dict[str, Any]) -> Rule:
    written, content = content, dict(content)
    if query := content.get("query"):
        file = path.parent / str(query)
        if not file.is_file():
            raise AlertError(f"{path}: query", f"{file} does not exist", "Put the query beside the rule")
        content["sql"] = file.read_text(encoding="utf-8")
        content["query"] = file.name
    try:
        rule = Rule.model_validate(content)
    except ValidationError as mistake:
        raise first_error(str(path), mistake, Rule, AlertError, "See docs/alerts.md", content=written) from mistake
    if rule.source and rule.source not in (*SOURCES, ENGINE):
        raise AlertError(f"{path}: source", f"no source {rule.source!r}", f"Known: {', '.join(SOURCES)}")
    return rule


def _names(contents: dict[str, Any]) -> str:
    return "Shipped are " + ", ".join(sorted(contents))
