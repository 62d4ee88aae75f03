"""Documents as files: PDF, HTML, JSON, or CSV with a row for each line of an invoice or credit note."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from billing.documents import statement_page
from billing.documents.csv import COLUMNS, as_csv, line_rows
from billing.documents.html import as_html
from billing.documents.pdf import as_pdf
from billing.documents.statement import Statement
from billing.invoicing.documents import Invoice
from warehouse.private_files import users_folder, whole_file

__all__ = [
    "COLUMNS", "FORMATS", "as_csv", "as_html", "as_json", "as_pdf", "file_stem", "line_rows", "write_file",
    "write_invoice", "write_statement",
]  # fmt: skip

FORMATS = ("html", "json", "csv", "pdf")


def as_json(invoice: Invoice | Statement) -> str:
    return json.dumps(invoice.document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


RENDER: dict[str, Callable[[Invoice], str | bytes]] = {
    "html": as_html, "json": as_json, "csv": as_csv, "pdf": as_pdf,
}  # fmt: skip
RENDER_STATEMENT: dict[str, Callable[[Statement], str | bytes]] = {
    "html": statement_page.as_html, "json": as_json, "pdf": statement_page.as_pdf,
}  # fmt: skip
STATEMENT_FORMATS = tuple(RENDER_STATEMENT)


def write_invoice(invoice: Invoice, directory: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Writes the invoice in each of the formats (see `FORMATS`), over what an earlier run wrote. Answers the paths."""
    stem = file_stem(invoice)
    return [write_file(directory / f"{stem}.{name}", RENDER[name](invoice)) for name in formats]


def write_statement(statement: Statement, directory: Path, formats: Iterable[str] = STATEMENT_FORMATS) -> list[Path]:
    """Writes the statement in each of the formats, over what an earlier run wrote. Answers the paths."""
    whose = "platform" if statement.is_platform else f"tenant-{slug(statement.tenant)}"
    stem = f"statement-{statement.month}-{whose}"
    return [write_file(directory / f"{stem}.{name}", RENDER_STATEMENT[name](statement)) for name in formats]


def write_file(path: Path, content: str | bytes) -> Path:
    """Writes one document over what was there, with its folder where that is not there yet."""
    users_folder(path.parent)
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def file_stem(invoice: Invoice) -> str:
    """A file name without suffix, fit for any file system and different for different tenants."""
    return f"{invoice.number or f'draft-{invoice.month}'}-{slug(invoice.tenant)}"


def slug(tenant: str) -> str:
    """A tenant's name as a part of a file name: the name itself where that is fit, else with a hash of it."""
    fit = re.sub(r"[^\w-]+", "-", tenant).strip("-")
    fit = fit.encode()[:60].decode(errors="ignore")
    if fit != tenant:
        fit = f"{fit or 'tenant'}-{hashlib.sha256(tenant.encode()).hexdigest()[:8]}"
    return fit
