"""Documents as HTML: one self-contained page, made to be printed; all text is escaped."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from billing.documents.page import page_of
from billing.invoicing.documents import Invoice

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def as_html(invoice: Invoice) -> str:
    """The invoice or credit note as one page."""
    return render("invoice", page_of(invoice))


def render(template: str, page: Any, **more: Any) -> str:
    """The page set by `templates/<template>.html`, with whatever else that template asks for."""
    return templates(TEMPLATES).get_template(f"{template}.html").render(page=page, **more)


@functools.cache
def templates(folder: Path) -> Environment:
    """The folder's templates; those of HTML escape what is put into them."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
