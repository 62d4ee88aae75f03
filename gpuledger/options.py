"""Options that several commands share, and the parsing of an instant."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gpuledger.hints import note_store
from warehouse.errors import LedgerError


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def parse_instant(option: str, text: str, example: str = "like 2026-10-05T12:00Z") -> datetime:
    """An ISO 8601 instant; UTC if it names no zone.   Errors: LedgerError that names the option."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise LedgerError(option, f"{text!r} is not an instant", f"Write it {example}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def checked_address(param: typer.CallbackParam, value: str | None) -> str | None:
    """The value of an option that may be a URL.

    Errors: LedgerError if its host or port cannot be read; it does not repeat what may hold a password.
    """
    if value:
        try:
            parts = urlsplit(value)
            if parts.scheme in ("http", "https"):
                _ = parts.port  # a store of several nodes has several
        except ValueError:
            what = "is not an address: its host or port cannot be read"
            raise LedgerError(param.opts[0], what, "Write it like http://host:8050") from None
    return value


def refuse_impossible(option: str, folder: Path) -> None:
    """Errors: LedgerError if a folder is not there and cannot be made; else a command would say so after its work."""
    missing = None
    for above in (folder, *folder.absolute().parents):
        try:
            os.lstat(above)
            break
        except (FileNotFoundError, NotADirectoryError):
            missing = above
            continue
        except OSError as error:  # such as a name that is too long
            raise LedgerError(f"{option} {folder}", error.strerror or str(error), "Name another one") from None
    if not os.path.isdir(above):  # noqa: PTH112 (of any)
        what = "is a link to nothing" if above.is_symlink() and not above.exists() else "is not a folder"
        raise LedgerError(f"{option} {folder}", f"{above} {what}", "Name another one")
    if missing is None:
        return
    if not os.access(above, os.W_OK | os.X_OK):
        raise LedgerError(f"{option} {folder}", f"cannot be made: {above} cannot be written", "Name another one")
    try:  # root may write anywhere, and yet nothing can be made in /proc, or on what is mounted read-only
        missing.mkdir()
        missing.rmdir()
    except FileExistsError:  # somebody made it meanwhile
        return
    except OSError as error:
        which = "" if missing == folder else f"{missing}: "
        what = f"cannot be made: {which}{error.strerror or error}"
        raise LedgerError(f"{option} {folder}", what, "Name another one") from None


def _checked_store(context: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    note_store(context, value or "")
    return checked_address(param, value)


Store = Annotated[
    str,
    typer.Option(
        "--store",
        callback=_checked_store,
        envvar="GPULEDGER_STORE",
        help="chdb:///path, clickhouse://user@host:8123/database, or a server that holds one: http://host:8050",
        show_default="a store in your home",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print the answer.")]
Author = Annotated[str, typer.Option(help="The author.", show_default="you")]
Reason = Annotated[str, typer.Option(help="The reason, for the audit.")]
OneTenant = Annotated[str | None, typer.Option(help="Only this tenant.", show_default="all")]
Period = Annotated[
    str,
    typer.Option(
        help="A month (2026-10), a day (2026-10-05) or START..END, in the billing time zone.",
        show_default="all that is closed",
    ),
]
Dimensions = Annotated[
    str, typer.Option(help="Any of tenant, project, queue, workload, cluster, node, device, model, pool, day, hour.")
]
LedgerDimensions = Annotated[
    str,
    typer.Option(
        help="Any of tenant, project, queue, workload, cluster, node, device, model, pool, day, hour, isolation."
    ),
]

Rules = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        envvar="GPULEDGER_ALERT_RULES",
        help="Folder of the site's own alert rules, over the shipped ones.",
        file_okay=False,
    ),
]
Routing = Annotated[
    Path | None,
    typer.Option(
        "--routing",
        envvar="GPULEDGER_ALERT_ROUTING",
        help="Who is notified of which alerts (YAML); default: nobody.",
    ),
]
SchedulerAt = Annotated[
    str,
    typer.Option(
        "--scheduler",
        envvar="GPULEDGER_SCHEDULER",
        metavar="URL",
        callback=checked_address,
        help="A live scheduler or operator whose idle jobs may be reclaimed from the page Now.",
    ),
]
SchedulerTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--scheduler-token-file", envvar="GPULEDGER_SCHEDULER_TOKEN_FILE", help="File with its token.", dir_okay=False
    ),
]
NoInterference = Annotated[
    bool,
    typer.Option(
        "--no-interference",
        envvar="GPULEDGER_NO_INTERFERENCE",
        help="Do not measure interference every 15 minutes.",
    ),
]
Reports = Annotated[
    Path | None,
    typer.Option(
        "--reports", envvar="GPULEDGER_REPORTS", help="Who gets which report by mail (YAML, docs/reports.md).",
        dir_okay=False,
    ),
]  # fmt: skip
Backups = Annotated[
    Path | None,
    typer.Option(
        "--backups", envvar="GPULEDGER_BACKUPS", help="Folder of the store's backups (docs/backups.md).",
        file_okay=False, resolve_path=True, writable=True,
    ),
]  # fmt: skip
BackupsBucket = Annotated[
    str,
    typer.Option(
        "--backups-bucket", envvar="GPULEDGER_BACKUPS_BUCKET", show_default=False,
        help="Also copy them to s3://BUCKET/PREFIX?endpoint=URL&region=NAME.",
    ),
]  # fmt: skip
BackupsKeep = Annotated[
    int,
    typer.Option(
        "--backups-keep", envvar="GPULEDGER_BACKUPS_KEEP", min=0,
        help="After each, remove all but the newest so many, also in the bucket; 0: none.",
    ),
]  # fmt: skip
SignIn = Annotated[
    Path | None,
    typer.Option(
        "--sign-in",
        envvar="GPULEDGER_SIGN_IN",
        help="How people sign in (YAML, docs/access.md); without it no sign-in, on loopback only.",
        dir_okay=False,
    ),
]
AccessSignIn = Annotated[
    Path | None,
    typer.Option(
        "--sign-in",
        envvar="GPULEDGER_SIGN_IN",
        help="The server's sign-in file, where it names an access store (docs/access.md).",
        dir_okay=False,
    ),
]
Issuer = Annotated[
    str, typer.Option("--issuer", help="If two have the same name: local, service or a provider's address.")
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        envvar="GPULEDGER_TRUSTED_PROXIES",
        help="A proxy's address or network, whose X-Forwarded-For and -Proto are trusted; may be repeated.",
        show_default="none",
    ),
]
NoSignIn = Annotated[
    bool,
    typer.Option("--insecure-no-sign-in", help="Show the books to anybody, on an address that others reach."),
]
PlainHttp = Annotated[
    bool,
    typer.Option(
        "--insecure-plain-http", help="Accept passwords and tokens without TLS on an address that others reach."
    ),
]
