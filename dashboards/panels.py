"""Charts below each other over one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dashboards import figures
from dashboards.languages import Language


class Panels:
    """Number 0 is on top."""

    GAP = 26
    """Pixels above each, for its title."""

    def __init__(self, heights: Sequence[int]) -> None:
        whole = sum(heights) + self.GAP * len(heights)
        self.height = whole + 58
        """Of the figure, in pixels."""
        self._traces: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {"shapes": []}
        top = 1.0
        for number, height in enumerate(heights):
            bottom = max(0.0, top - (height + (self.GAP if number else 0)) / (whole - self.GAP))
            self._layout[f"yaxis{self._name(number)}"] = {
                "domain": [bottom, top - (self.GAP / (whole - self.GAP) if number else 0.0)],
                "anchor": f"x{self._name(number)}",
                "gridcolor": figures.GRID,
                "zeroline": False,
                "rangemode": "tozero",
                "fixedrange": True,
                "nticks": 4,
                "separatethousands": True,
            }
            top = bottom

    @staticmethod
    def _name(number: int) -> str:
        return str(number + 1) if number else ""

    def add(self, number: int, *traces: dict[str, Any]) -> None:
        name = self._name(number)
        self._traces += [{**trace, "xaxis": f"x{name}", "yaxis": f"y{name}"} for trace in traces]

    def y(self, number: int, **axis: Any) -> None:
        self._layout[f"yaxis{self._name(number)}"] |= axis

    def line(self, number: int, value: float) -> None:
        """Right across a panel, dotted."""
        name = self._name(number)
        line = {"width": 1, "dash": "dot", "color": figures.GRID}
        self._layout["shapes"].append(
            {"type": "line", "x0": 0, "x1": 1, "xref": f"x{name} domain", "y0": value, "y1": value, "yref": f"y{name}",
             "line": line}
        )  # fmt: skip

    def figure(
        self,
        titles: Sequence[str],
        words: Language,
        span: Sequence[datetime] = (),
        left: int = 52,
        grain: figures.Grain = "hour",
        **layout: Any,
    ) -> figures.Chart:
        """titles: of the panels.   span: first and last moment of the axis.   left: pixels for the labels there.

        grain: whether the axis tells hours."""
        last = len(titles) - 1
        for number in range(len(titles)):
            name = self._name(number)
            self._layout[f"xaxis{name}"] = {
                "anchor": f"y{name}",
                "type": "date",  # also of a panel in which nothing was measured
                "showgrid": False,
                "zeroline": False,
                "tickformat": words(f"time.{grain}_ticks"),
                "showticklabels": number == last,
                "tickangle": 0,
                "ticklabelstandoff": 6,  # below the zero of the last panel
                **({"range": list(span)} if span else {}),
                **({"matches": "x"} if number else {}),
            }
        tops = [self._layout[f"yaxis{self._name(number)}"]["domain"][1] for number in range(len(titles))]
        self._layout["annotations"] = [
            {"text": text, "x": 0, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
             "showarrow": False, "font": {"size": 12}}
            for text, top in zip(titles, tops, strict=True)
        ]  # fmt: skip
        look = {
            **figures.LOOK,
            "margin": {"l": left, "r": 24, "t": 26, "b": 42},
            "barmode": "stack",
            "bargap": 0.2,
            "height": self.height,
        }
        return {"data": figures.timed(self._traces), "layout": {**look, **layout, **self._layout}}
