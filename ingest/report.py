"""The outcome of an ingest: how many rows were stored, rejected, or duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class IngestReport:
    """Counts of rows; read = written + duplicate + everything quarantined.

    written: rows whose natural key was new.   duplicate: the key was in the store or earlier in the same batch.
    differing: those of the duplicates' keys under which the store had other values: both are kept, and a rule decides.
    quarantined: by reason.   ignored_columns: in the source, but in no contract.   misspelt: of these, what the column
    is likely to mean, which the source lacks.
    """

    read: int = 0
    written: int = 0
    duplicate: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    ignored_columns: tuple[str, ...] = ()
    differing: int = 0
    misspelt: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(
            self.read + other.read,
            self.written + other.written,
            self.duplicate + other.duplicate,
            dict(sorted((Counter(self.quarantined) + Counter(other.quarantined)).items())),
            tuple(sorted({*self.ignored_columns, *other.ignored_columns})),
            self.differing + other.differing,
            {**self.misspelt, **other.misspelt},
        )
