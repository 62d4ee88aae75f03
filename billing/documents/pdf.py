"""Documents as PDF, set by typst.

The same page and fonts give the same bytes: the document's date is the day of issue, no clock is read, and only the
fonts named here are used. Chinese, Japanese and Korean use a shipped font (fonts/README.md); characters that it lacks
use a system font, and if there is none, a line in the log says so. No page mentions fonts.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from billing.documents.cjk import CHARACTERS
from billing.documents.page import page_of
from billing.invoicing.documents import Invoice
from warehouse.errors import LedgerError

if TYPE_CHECKING:
    import typst

log = logging.getLogger(__name__)

TEMPLATES = Path(__file__).parent / "templates"
PLACES = (Path("/usr/share/fonts/opentype/inter"), Path("/usr/share/fonts/opentype/noto"))
"""Where Debian's fonts-inter and fonts-noto-cjk put their faces."""
LATIN = ("Inter", "Noto Sans", "Segoe UI", "Helvetica Neue", "DejaVu Sans", "Libertinus Serif")
SHIPPED = Path(__file__).parent / "fonts"
OURS = "gpuledger CJK"
CJK = ("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei")
"""Faces, the best first; ours stands before the system's CJK. Libertinus Serif comes with typst."""
_IDEOGRAPHS = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_LONG = re.compile(r"[!-~\u00a1-\u04ff]{20,}")
_PIECES = re.compile(r"[^-_/.:@]{1,16}[-_/.:@]?|[-_/.:@]")
_LOGO = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,(.+)")


@dataclass(frozen=True)
class Faces:
    """The fonts to set with, and the families of them that are used, the best first."""

    fonts: typst.Fonts
    families: tuple[str, ...]

    @property
    def all_cjk(self) -> bool:
        """Whether there is a face for the rare characters that ours lacks."""
        return not set(CJK).isdisjoint(self.families)


@functools.cache
def faces(places: tuple[Path, ...] = PLACES) -> Faces:
    """The faces found in `places`; where one of the two is not there, in all of the system's."""
    import typst

    found = _faces(typst.Fonts(include_system_fonts=False, font_paths=_paths(places)))
    if places and not {LATIN[0], CJK[0]} <= set(found.families):
        found = _faces(typst.Fonts(include_system_fonts=True, font_paths=_paths(places)))
        if LATIN[0] not in found.families:
            log.warning("%s is not installed (Debian: fonts-inter); %s stands in", LATIN[0], found.families[0])
    return found


def as_pdf(invoice: Invoice, found: Faces | None = None) -> bytes:
    """The invoice or credit note, A4. Errors: LedgerError if it cannot be set."""
    return set_page("invoice", asdict(page_of(invoice)), found)


def set_page(template: str, page: Mapping[str, Any], found: Faces | None = None) -> bytes:
    """The page set by `templates/<template>.typ`. Errors: LedgerError if it cannot be set."""
    return bytes(compiled(template, page, found))


def compiled(template: str, page: Mapping[str, Any], found: Faces | None = None, **options: Any) -> Any:
    """What typst makes of the page; `options` are its own: with format="png" it is an image a page."""
    import typst

    found = found or faces()
    rare = "" if found.all_cjk else "".join(sorted({letter for text in _texts(page) for letter in _rare(text)}))
    if rare:
        what = "no font has %s, shown as boxes (Debian: apt install fonts-noto-cjk)"
        log.warning("%s %s: " + what, page["title"], page["number"], rare)
    data = {**page, "fonts": list(found.families), "logo": _logo(page["issuer"]["logo"])}
    data["issuer"] = {**page["issuer"], "logo": ""}
    try:
        return typst.compile(
            str(TEMPLATES / f"{template}.typ"),
            root=str(TEMPLATES),
            font_paths=found.fonts,
            ignore_system_fonts=True,
            sys_inputs={"page": json.dumps(_breakable(data), ensure_ascii=False)},
            **options,
        )
    except typst.TypstError as error:
        if data["logo"] is not None:
            without = compiled(template, {**page, "issuer": {**page["issuer"], "logo": ""}}, found, **options)
            log.warning("the issuer's logo cannot be drawn (%s); a monogram stands in", error.message)
            return without
        raise LedgerError(f"{template}.pdf", f"cannot be set: {error.message}", "Use --format html") from None


def _faces(fonts: typst.Fonts) -> Faces:
    there = set(fonts.families())
    return Faces(fonts, tuple(family for family in (*LATIN, OURS, *CJK) if family in there))


def _paths(places: Iterable[Path]) -> list[str]:
    return [str(place) for place in (SHIPPED, *places)]


def _rare(text: str) -> Iterable[str]:
    """The ideographs and hangul in the text that the shipped font lacks."""
    return (letter for letter in _IDEOGRAPHS.findall(text) if letter not in CHARACTERS)


def _logo(uri: str) -> dict[str, Any] | None:
    """A data: URI as the bytes and the format that typst reads; None for other formats."""
    found = _LOGO.fullmatch(uri)
    if found is None:
        return None
    formats = {"jpeg": "jpg", "svg+xml": "svg"}
    return {"format": formats.get(found[1], found[1]), "bytes": list(base64.b64decode(found[2]))}


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _breakable(value: Any) -> Any:
    """The data with places to break in words that are longer than a column (zero-width spaces)."""
    if isinstance(value, str):
        return _LONG.sub(lambda word: "\u200b".join(_PIECES.findall(word[0])), value)
    if isinstance(value, Mapping):
        return {key: _breakable(item) for key, item in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], int)):
        return [_breakable(item) for item in value]
    return value
