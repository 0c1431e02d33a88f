"""`Ploter`: curves of costs by step, which tutorials keep while they train."""

from __future__ import annotations

import importlib.util
import logging
from os import PathLike

from fleet.errors import UsageError

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


class Ploter:
    """Points of several curves, each with a title; matplotlib draws them, where it is installed."""

    def __init__(self, *titles: str) -> None:
        self._curves: dict[str, list[tuple[float, float]]] = {title: [] for title in titles}

    def append(self, title: str, step: float, value: float) -> None:
        """One more point of a curve."""
        if title not in self._curves:
            raise UsageError(f"Ploter has no curve {title!r}; it has {', '.join(self._curves)}")
        self._curves[title].append((step, float(value)))

    def plot(self, path: str | PathLike[str] | None = None) -> None:
        """Draw all curves into a file; without `path` there is nowhere to draw to, and nothing happens."""
        if path is None:
            return
        if importlib.util.find_spec("matplotlib") is None:
            _log.warning("Ploter: matplotlib is not installed, so %s is not drawn; pip install matplotlib", path)
            return
        from matplotlib.figure import Figure  # a figure of its own: no window, no global state

        figure = Figure()
        axes = figure.subplots()
        for title, points in self._curves.items():
            if points:
                axes.plot(*zip(*points, strict=True), label=title)
        axes.legend()
        figure.savefig(path)

    def reset(self) -> None:
        """Forget all points; the titles stay."""
        for points in self._curves.values():
            points.clear()
