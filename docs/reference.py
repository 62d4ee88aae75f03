"""The reference's pages, made of the code: `make docs` writes them, and a test holds that they are what it writes."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, cast

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tests.deploy.command_lines import of_document

DOCS = Path(__file__).parent
MADE = "Made of the code by `make docs`; change the code, not this page."
EVERYWHERE = {"--store", "--format", "--limit", "--help"}
"""Options that the page of commands describes once."""
EXAMPLES: Mapping[str, str] = {
    "invoice show": "GL-2026-00007",
    "invoice list": "--period 2026-10",
    "invoice statement": "--period 2026-10 --tenant vision",
    "invoice platform": "--period 2026-10",
    "invoice months": "",
    "invoice parties list": "",
    "invoice credit": 'GL-2026-00007 --amount 5.00 --reason "an outage on the 7th"',
    "invoice void": 'GL-2026-00008 --reason "sent to the wrong entity"',
    "budget": "--period 2026-10",
    "rates list": "",
    "rates show": "",
    "rates history": "",
    "energy intensity list": "",
    "slo list": "",
    "scheduler release": "JOB",
    "scheduler suspend": "JOB",
    "scheduler resume": "JOB",
    "scheduler renew": "JOB",
    "scheduler cancel": "JOB",
    "scheduler keep": "JOB",
    "scheduler propose": "JOB",
    "simulate trace": "jobs.csv --machines 776x8:V100 --config fifo.yaml",
}
"""Of commands that no other document shows."""
SAYS_NO: Mapping[str, str] = {
    "verify": "the books do not balance",
    "invoice verify": "the invoice does not follow from the facts",
    "tenants check": "the mapping leaves something open",
    "export check": "the file breaks a rule of FOCUS",
    "credits import": "a line of the file was refused",
    "anomalies": "there is an anomaly",
    "slo status": "an objective is missed",
    "alerts check": "an alert fires",
    "interference status": "somebody is disturbed",
    "exporter": "what a device must have is lost",
    "acceptance": "a threshold is not met",
    "report preview": "nothing of the period is closed",
    "report send": "a mail could not be delivered",
    "scheduler room": "no moves make room",
    "scheduler replay": "the log does not replay to the same decisions",
    "up": "the demonstration's books do not balance",
}
"""What exit status 1 says, of commands that have it."""


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that can be typed, by its words."""
    from gpuledger.cli import build

    group = group or typer.main.get_command(build())
    names = group.list_commands(None) if hasattr(group, "list_commands") else ()
    if not names or group.invoke_without_command:
        yield " ".join(path), group
    for name in names:
        yield from commands(group.get_command(None, name), (*path, name))


def shown_elsewhere() -> Mapping[str, tuple[str, str]]:
    """By command, the first example of a document, and the document."""
    found: dict[str, tuple[str, str]] = {}
    every = sorted((words for words, _ in commands()), key=len, reverse=True)
    for path in (DOCS / "tutorial.md", *sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"):
        if path.name in PAGES:
            continue
        typed = re.findall(r"^    \$ gpuledger (.*)$", path.read_text(encoding="utf-8"), re.M)
        for line in (*typed, *(shlex.join(words) for _, words in of_document(path))):
            words = next((one for one in every if f"{line} ".startswith(f"{one} ")), None)
            if words is not None and not line.endswith("--help"):
                found.setdefault(words, (line, path.name))
    return found


def command_page() -> str:
    """Every command with its arguments, options, exit status and an example."""
    from gpuledger.commands import COMMANDS

    elsewhere, panel = shown_elsewhere(), ""
    parts = [
        "# Commands",
        MADE,
        "`--help` after a command says the same. `gpuledger --install-completion` completes commands and options in\n"
        "bash, zsh and fish; `--show-completion` prints the script instead. Neither needs a store.",
        "Exit status 0: done; 1: the answer is no (below, where a command has one); 2: unusable input, with one\n"
        "line that says where, what and the next step; 130: interrupted, and the same command again carries on.",
        "Common options: `--store` (or `GPULEDGER_STORE`): `chdb:///path`, `clickhouse://user@host:8123/database`,\n"
        "or the address of a server that holds the store, with a token in `GPULEDGER_TOKEN`. `--format`: `table`,\n"
        "`json` or `csv`. `--limit`: rows of a table, 40 by default; 0 shows all.\n"
        "An option or argument with an empty text is refused: a shell variable that is not set is no default.",
    ]
    for words, command in commands():
        entry = COMMANDS[words.split()[0]]
        if entry.panel != panel:
            panel = entry.panel
            parts.append(f"## {panel}")
        parts += [f"### {words}", _text(command.help)]
        if words in elsewhere:
            line, document = elsewhere[words]
            parts.append(f"    gpuledger {line}\n\nFrom {_link(document)}.")
        else:
            parts.append(f"    gpuledger {words} {EXAMPLES[words]}".rstrip())
        names = {name for one in command.params for name in one.opts}
        rows = [_parameter(one) for one in command.params if not EVERYWHERE & set(one.opts)]
        if rows:
            parts.append("\n".join(["| | | |", "|---|---|---|", *rows]))
        if also := sorted((EVERYWHERE - {"--help"}) & names, key=["--store", "--format", "--limit"].index):
            parts.append("Also " + ", ".join(f"`{one}`" for one in also) + ".")
        if words in SAYS_NO:
            parts.append(f"Exit status 1: {SAYS_NO[words]}.")
    return "\n\n".join(parts) + "\n"


def _link(document: str) -> str:
    """To the heading's words of another page; README stands beside the folder."""
    return f"[{document}]({'../' * (document == 'README.md')}{document})"


def _parameter(one: Any) -> str:
    kind = getattr(one.type_descriptor, "annotation", str)
    if isinstance(kind, type) and issubclass(kind, Enum):
        values = ", ".join(f"`{choice.value}`" for choice in kind)
    else:
        values = {bool: "", int: "number", float: "number", Path: "path"}.get(kind, "text")
    is_option = one.opts[0].startswith("-")
    called = (one.metavar or one.name).strip("[]{}").upper()
    name = ", ".join(f"`{text}`" for text in (*one.opts, *one.secondary_opts)) if is_option else called
    default = one.show_default if isinstance(one.show_default, str) else one.default
    notes = [values] if values else []
    notes += ["required"] if one.required else []
    notes += ["several times"] if one.multiple or one.nargs == -1 else []
    if default not in (None, "", False, [], ()) and one.show_default:
        value = default.value if isinstance(default, Enum) else default
        notes.append(f"default: {value}")
    variables = [one.envvar] if isinstance(one.envvar, str) else one.envvar or []
    notes += [f"or `{variable}`" for variable in variables]
    return f"| {name} | {_cell('; '.join(notes))} | {_cell(one.help or '')} |"


def route_page() -> str:
    """Every route of the HTTP API, from its OpenAPI document."""
    from api.app import build_api
    from dashboards.reports import route

    document = build_api(cast("Any", None), cast("Any", None), "0", [route.router]).openapi()
    schemas = document["components"]["schemas"]
    parts = [
        "# HTTP API: routes",
        MADE,
        "Below `/api/v1`; `GET /api/v1/openapi.json` says the same to programs. Who may ask what, values, pages and\n"
        "errors: [the HTTP API](api.md).",
    ]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            parts += [f"## {method.upper()} {path}", _text(one.get("description") or one["summary"])]
            rows = [
                f"| `{each['name']}` | {each['in']} | {_cell(_kind(each['schema']))} "
                f"| {_cell(each.get('description', ''))} |"
                for each in one.get("parameters", ())
            ]
            if rows:
                parts.append("\n".join(["| parameter | in | | |", "|---|---|---|---|", *rows]))
            for body in _schemas(one.get("requestBody", {}).get("content", {})):
                parts.append("Body: " + _fields(body, schemas))
            for status, answer in one["responses"].items():
                if status.startswith("2"):
                    told = [_fields(schema, schemas) for schema in _schemas(answer.get("content", {}))]
                    parts.append(f"Answers {status}: " + ("; ".join(told) or "no body"))
    return "\n\n".join(parts) + "\n"


def _schemas(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one["schema"] for name, one in content.items() if one.get("schema") and "problem" not in name]


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The names of what is in it."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    if schema.get("type") == "array":
        return "a list of " + _fields(schema["items"], schemas)
    names = [f"`{name}`" for name in schema.get("properties", ())]
    return ", ".join(names) or _kind(schema)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    default = f"; default {schema['default']}" if schema.get("default") not in (None, "") else ""
    return {"string": "text", "integer": "number", "object": "object", None: "any"}.get(
        schema.get("type"), str(schema.get("type"))
    ) + default


def metric_page() -> str:
    """What agents, servers and schedulers expose at /metrics, from the calls that make it."""
    parts = ["# Metrics", MADE]
    for title, files, prefix in (
        ("Server", ("api/metrics.py", "alerts/metrics.py"), ""),
        ("Agent", ("collectors/agent/own_metrics.py", "collectors/agent/exposition.py"), ""),
        ("Scheduler", ("scheduler/exposition.py",), "gpuledger_scheduler_"),
    ):
        rows = [
            f"| `{prefix}{name}` | {kind} | {_cell(text)} |" for file in files for name, kind, text in _families(file)
        ]
        parts += [f"## {title}", "\n".join(["| metric | kind | |", "|---|---|---|", *rows])]
    parts.append("The agent also exposes each device's readings under the names of [telemetry](telemetry.md).")
    return "\n\n".join(parts) + "\n"


def _families(file: str) -> Iterator[tuple[str, str, str]]:
    """Name, kind and help of each family or series that the module makes."""
    tree, texts = ast.parse((DOCS.parent / file).read_text(encoding="utf-8")), {}
    for node in sorted((one for one in ast.walk(tree) if hasattr(one, "lineno")), key=lambda one: one.lineno):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        ):
            texts[node.targets[0].id] = node.value.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Family", "Series"):
            words = [
                texts.get(one.id) if isinstance(one, ast.Name) else getattr(one, "value", None) for one in node.args
            ]
            name, *both = words[:3]
            if isinstance(name, str) and all(isinstance(one, str) for one in both):
                text, kind = both if node.func.id == "Series" else both[::-1]
                yield name, kind, text
        if isinstance(node, ast.Tuple) and len(node.elts) == 3:
            name, text = (getattr(one, "value", None) for one in node.elts[:2])
            if isinstance(name, str) and re.fullmatch("agent_[a-z_]+", name) and isinstance(text, str):
                yield name, "counter" if name.endswith("_total") else "gauge", text


def alert_page() -> str:
    """The shipped alert rules."""
    from alerts.rule_files import load_rules
    from warehouse.durations import write_duration

    parts = [
        "# Alert rules",
        MADE,
        "What ships with gpuledger; how rules are written, overridden and routed: [alerts](alerts.md).",
    ]
    for rule in load_rules():
        held = f" for {write_duration(rule.for_)}" if rule.for_ else ""
        parts += [
            f"## {rule.name}",
            f"{rule.severity.capitalize()}; owner {rule.owner.strip('{} ') or 'platform'}; "
            f"evaluated every {write_duration(rule.interval)}; fires where `value` {rule.condition_text()}{held}.",
            f"    {rule.summary}",
            _text(f"{rule.action}." if rule.action and "{" not in rule.action else ""),
        ]
        if rule.parameters:
            parts.append(
                "Parameters: " + ", ".join(f"`{name}` {value}" for name, value in rule.parameters.items()) + "."
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def card_page() -> str:
    """Every key of a rate card."""
    from billing.rates.rate_card import RateCard

    parts, waiting, seen = (
        ["# Rate card: keys", MADE, "What they do, with examples: [the rate card](rates.md)."],
        [RateCard],
        set(),
    )
    while waiting:
        model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        parts += [f"## {model.__name__}", _text((model.__doc__ or "").split("\n\n")[0])]
        rows = []
        for name, field in model.model_fields.items():
            default = "required" if field.is_required() else _default(field.default)
            rows.append(f"| `{field.alias or name}` | {_cell(_annotation(field.annotation))} | {_cell(default)} |")
            waiting += _models(field.annotation)
        parts.append("\n".join(["| key | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined or value in ((), {}, ""):
        return ""
    return (
        ", ".join(f"{key}: {one}" for key, one in value.model_dump().items() if one)
        if isinstance(value, BaseModel)
        else str(value)
    )


def _parts(annotation: Any) -> Sequence[Any]:
    return getattr(annotation, "__args__", ()) or ()


def _models(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and not _parts(annotation):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [one for part in _parts(annotation) for one in _models(part)]


def _annotation(annotation: Any) -> str:
    """In words; several choices with "or"."""
    if isinstance(annotation, type) and not _parts(annotation):
        names: dict[Any, str] = {
            str: "text", int: "number", bool: "true or false", Decimal: "decimal", datetime: "time", type(None): "",
        }  # fmt: skip
        return names.get(annotation, annotation.__name__)
    origin = getattr(annotation, "__origin__", None)
    if origin is tuple:
        return f"list of {_annotation(_parts(annotation)[0])}"
    if origin is dict:
        return f"name: {_annotation(_parts(annotation)[1])}"
    inner = [part if isinstance(part, str) else _annotation(part) for part in _parts(annotation) if part is not ...]
    return " or ".join(dict.fromkeys(one for one in inner if one))


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("<", "\\<").replace("{", "\\{")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


PAGES = {
    "reference-commands.md": command_page,
    "reference-api.md": route_page,
    "reference-metrics.md": metric_page,
    "reference-alert-rules.md": alert_page,
    "reference-rate-card.md": card_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
