"""Makes gpuledger-cjk.otf of Noto Sans CJK (README.md); wants fonttools, which nothing else here does."""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools import subset  # type: ignore[import-not-found]
from fontTools.ttLib import TTCollection  # type: ignore[import-not-found]

from billing.documents.cjk import CHARACTERS

FACE, NAME = "Noto Sans CJK SC", "gpuledger CJK"
KEPT_NAMES = [0, 1, 2, 3, 4, 5, 6, 13, 14]


def main(source: str) -> None:
    font = next(one for one in TTCollection(source).fonts if one["name"].getDebugName(1) == FACE)
    options = subset.Options()
    options.hinting, options.layout_features, options.name_IDs = False, [], KEPT_NAMES
    options.notdef_outline, options.recalc_timestamp = True, False
    options.drop_tables += ["VORG", "vhea", "vmtx", "BASE", "GPOS", "GSUB", "STAT"]
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=[ord(letter) for letter in CHARACTERS])
    chosen.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 4):
            record.string = NAME
        elif record.nameID in (3, 6):
            record.string = NAME.replace(" ", "-")
        elif record.nameID == 2:
            record.string = "Regular"
    font["CFF "].cff.fontNames[0] = NAME.replace(" ", "-")
    font.save(Path(__file__).parent / "gpuledger-cjk.otf")


if __name__ == "__main__":
    main(sys.argv[1])
