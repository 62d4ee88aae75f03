"""Documents as HTML: one self-contained page, made to be printed; all text is escaped."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from billing.documents.page import page_of
from billing.invoicing.documents import Invoice

if TYPE_CHECKING:
    from jinja2 import Environment


def as_html(invoice: Invoice) -> str:
    """The invoice or credit note as one page."""
    return render("invoice", page_of(invoice))


def render(template: str, page: Any, **more: Any) -> str:
    """The page set by `templates/<template>.html`, with whatever else that template asks for."""
    return _templates().get_template(f"{template}.html").render(page=page, **more)


@functools.cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
