"""State of an exporter's reader that survives restarts of the process: the units of fields, and the devices it
reported. A small file, written only when something changed.
"""

from __future__ import annotations

import json
from pathlib import Path

from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.units import SourceUnits


class Memory:
    """path: None: a new process remembers nothing.   inventory: None: device rows are made by others.   damaged: why
    the file was not used, empty if it was."""

    def __init__(self, path: Path | None = None, inventory: ExporterInventory | None = None) -> None:
        self._path = path
        self._units: dict[str, SourceUnits] = {}
        self.inventory = inventory
        self.damaged = ""
        if path is not None and path.exists():
            try:
                plain = json.loads(path.read_text(encoding="utf-8"))
                self._units = {str(name): SourceUnits.of(one) for name, one in plain["units"].items()}
                if inventory is not None:
                    inventory.restore(plain["devices"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as mistake:
                self.damaged = f"{path}: {mistake.strerror if isinstance(mistake, OSError) else 'is damaged'}"

    def units(self, source: str) -> SourceUnits:
        """Of one exporter's URL, one Prometheus, one sender."""
        return self._units.setdefault(source, SourceUnits())

    def save(self) -> None:
        """Errors: OSError if the disk does not take it; it is tried again the next time."""
        changeable: list[SourceUnits | ExporterInventory] = [*self._units.values()]
        if self.inventory is not None:
            changeable.append(self.inventory)
        if self._path is None or not any(one.changed for one in changeable):
            return
        plain = {
            "units": {name: one.plain() for name, one in self._units.items()},
            "devices": self.inventory.plain() if self.inventory is not None else {},
        }
        beside = self._path.with_name(self._path.name + ".new")
        beside.write_text(json.dumps(plain, separators=(",", ":")), encoding="utf-8")
        beside.replace(self._path)
        for one in changeable:
            one.changed = False
