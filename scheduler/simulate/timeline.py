"""A curve of a run in a fixed number of points, however long the run is: averages over equal spans of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MOST_POINTS = 512


class Timeline:
    """Averages of several quantities, each constant from one `add` to the next.

    Starts with spans of `seconds`; when the points run out, two spans become one. Counts in whole milliseconds.
    """

    def __init__(self, names: Sequence[str], start: float, seconds: int = 60) -> None:
        self.names, self.start = tuple(names), start
        self._span = seconds * 1000
        self._areas: dict[str, list[float]] = {name: [] for name in self.names}
        self._at = 0
        self._values: Mapping[str, float] = dict.fromkeys(self.names, 0.0)

    @property
    def seconds(self) -> float:
        """Of a span."""
        return self._span / 1000

    def add(self, now: float, values: Mapping[str, float]) -> None:
        """From now on the quantities have these values."""
        self._fill(round((now - self.start) * 1000))
        self._values = values

    def points(self) -> list[tuple[float, Mapping[str, float]]]:
        """(start of the span, average of each quantity over it), the last span up to the last `add`."""
        found: list[tuple[float, Mapping[str, float]]] = []
        for number in range(len(self._areas[self.names[0]])):
            first = number * self._span
            length = min(self._span, self._at - first)
            averages = {name: self._areas[name][number] / length for name in self.names}
            found.append((self.start + first / 1000, averages))
        return found

    def _fill(self, until: int) -> None:
        while until > MOST_POINTS * self._span:
            self._halve()
        while self._at < until:
            number = self._at // self._span
            end = min(until, (number + 1) * self._span)
            for name, areas in self._areas.items():
                if number == len(areas):
                    areas.append(0.0)
                areas[number] += self._values[name] * (end - self._at)
            self._at = end

    def _halve(self) -> None:
        for name, areas in self._areas.items():
            padded = [*areas, 0.0] if len(areas) % 2 else areas
            self._areas[name] = [a + b for a, b in zip(padded[::2], padded[1::2], strict=True)]
        self._span *= 2
