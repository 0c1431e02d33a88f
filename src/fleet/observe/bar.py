"""A progress bar that a person can watch through fleetrun, and plain lines where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

from fleet import env

T = TypeVar("T")

_LINE_EVERY_S = 5.0


class progress(Generic[T]):  # noqa: N801  used like range() or tqdm()
    """Iterate with a bar; `show(loss=...)` sets what stands beside it.

    for batch in (bar := fleet.progress(batches, "epoch 0")):
        bar.show(loss=0.25)

    On a terminal (also through fleetrun, for the worker it follows) it is a bar that moves; elsewhere a line every
    five seconds and one at the end. On workers other than the first pass `enabled=False`.
    """

    def __init__(self, items: Iterable[T], label: str = "", total: int | None = None, enabled: bool = True) -> None:
        self._items = items
        self._label = label
        self._total = total if total is not None else _length(items)
        self._enabled = enabled
        self._values: dict[str, float | int | str] = {}

    def show(self, **values: float | int | str) -> None:
        """Set the values shown beside the bar."""
        self._values.update(values)

    def __iter__(self) -> Iterator[T]:
        if not self._enabled:
            yield from self._items
            return
        width = env.FLEET_TERMINAL_WIDTH.get()
        view = (
            _Bar(self._label, self._total, width) if width or sys.stdout.isatty() else _Lines(self._label, self._total)
        )
        with view:
            for done, item in enumerate(self._items):
                view.update(done, self._text())
                yield item
                view.update(done + 1, self._text())

    def _text(self) -> str:
        return "  ".join(f"{name} {_show(value)}" for name, value in self._values.items())


def _length(items: object) -> int | None:
    try:
        return len(items)  # type: ignore[arg-type]  # asked of everything
    except TypeError:  # also from those that have lengths only sometimes, such as streams of batches
        return None


def _show(value: float | int | str) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


class _Lines:
    """One line now and then."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._started = self._shown_at = time.monotonic()
        self._done, self._text = 0, ""
        self._printed = -1

    def __enter__(self) -> _Lines:
        return self

    def update(self, done: int, text: str) -> None:
        self._done, self._text = done, text
        if time.monotonic() - self._shown_at > _LINE_EVERY_S:
            self._shown_at = time.monotonic()
            self._print()

    def _print(self) -> None:
        self._printed = self._done
        rate = self._done / max(time.monotonic() - self._started, 1e-9)
        total = "" if self._total is None else f"/{self._total}"
        print(f"{self._label} {self._done}{total}  {rate:.1f}/s  {self._text}".strip(), flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._printed != self._done:
            self._print()


class _Bar:
    """A moving bar drawn by rich."""

    def __init__(self, label: str, total: int | None, width: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),  # a label or a path may hold brackets
            BarColumn(finished_style="green"),  # rich's own is, in 16 colours, that of a bar still empty
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[values]}", markup=False),
            console=Console(force_terminal=True, width=width),
        )
        self._task = self._progress.add_task(label, total=total, values="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def update(self, done: int, text: str) -> None:
        self._progress.update(self._task, completed=done, values=text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
