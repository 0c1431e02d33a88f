"""What a run has shown so far: a line of CSV, a point of TensorBoard and of a plot for every look at it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FIELDS = ("step", "samples", "seconds", "loss", "AUC")
"""Of training; those of an evaluation begin with `test`."""


class Curves:
    """The curves of a run, kept by the first worker. A run that goes on at `step` forgets what came after it."""

    def __init__(self, folder: Path, step: int, metrics: Sequence[str]) -> None:
        self._fields = [*FIELDS, *(f"test {name}" for name in metrics)]
        folder.mkdir(parents=True, exist_ok=True)
        self.csv, self.png, self.log = folder / "curves.csv", folder / "curves.png", folder / "tensorboard"
        self._points: list[dict[str, float]] = []
        if step and self.csv.exists():
            with self.csv.open(newline="") as file:
                rows = [{name: _number(text) for name, text in row.items() if text} for row in csv.DictReader(file)]
            self._points = [row for row in rows if row["step"] <= step]
        with self.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._fields)
            writer.writeheader()
            writer.writerows(self._points)
        self._board = _board(self.log, step)
        self.has_board = self._board is not None

    def add(self, step: int, **values: float) -> None:
        """Note what there is to see at a step; `test` in front of a name is of an evaluation."""
        self._points.append({"step": step, **values})
        with self.csv.open("a", newline="") as file:
            csv.DictWriter(file, self._fields).writerow(self._points[-1])
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def close(self, ceiling: float | None = None) -> Path | None:
        """Draw the plot, if matplotlib is installed; where it is. `ceiling`: the best AUC there can be."""
        if self._board is not None:
            self._board.close()
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            print("no plot: pip install 'torch-fleet[curves]'")
            return None
        panels: dict[str, list[str]] = {}
        for name in self._fields[3:]:
            if any(name in one for one in self._points):
                panels.setdefault(name.removeprefix("test ").removeprefix("log "), []).append(name)
        figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, (title, names) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            for name in names:
                points = [(one["samples"], one[name]) for one in self._points if name in one]
                axes.plot(*zip(*points, strict=True), marker="o" if name.startswith("test") else None, label=name)
            if title == "AUC" and ceiling is not None:
                axes.axhline(ceiling, linestyle="--", color="grey", label="the best there can be")
            axes.set(xlabel="samples", title=title)
            axes.legend()
        figure.savefig(self.png)
        return self.png


def _board(folder: Path, step: int) -> Any:
    """A writer of TensorBoard's, or None where that is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print("no TensorBoard log: pip install 'torch-fleet[curves]'")
        return None
    return SummaryWriter(folder, purge_step=step or None)


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)
