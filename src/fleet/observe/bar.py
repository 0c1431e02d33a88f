"""A progress bar that a person can watch through fleetrun, and plain lines where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from fleet import env
from fleet.errors import UsageError
from fleet.observe.metrics.reports import reports
from fleet.observe.timing.duration import in_words

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
_LINE_EVERY_S = 5.0


Value = float | int | str


class Tally:
    """Counts steps from `initial` to `total`; as text `step 120/300  loss 0.4100  12.3 steps/s  15 s left`.

    Rate and time left are those of the steps counted here: what an earlier run did before `initial` took its own time.
    """

    def __init__(self, unit: str, initial: int, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = initial
        self.is_over = False
        """Whether nothing more is counted, so that the time it took stands where the time left was."""
        self.values: dict[str, Value] = {}
        self._unit = unit
        self._initial = initial
        self.total = total
        self._clock = clock
        self._began_at = clock()

    def __str__(self) -> str:
        seconds = self._clock() - self._began_at
        parts = [f"{self._unit} {self.done}{'' if self.total is None else f'/{self.total}'}"]
        parts += [f"{name} {shown(value)}" for name, value in self.values.items()]
        counted = self.done - self._initial
        if counted > 0:
            parts.append(self._rate(counted / max(seconds, 1e-9)))
        if self.is_over:
            parts.append(f"in {in_words(seconds)}")
        elif counted > 0 and self.total is not None and self.done < self.total:
            parts.append(f"{in_words(seconds / counted * (self.total - self.done))} left")
        return "  ".join(parts)

    def _rate(self, per_second: float) -> str:
        if per_second < 1:
            return f"{in_words(1 / per_second)}/{self._unit}"
        return f"{per_second:,.{1 if per_second < 100 else 0}f} {plural(self._unit)}/s"


def plural(unit: str) -> str:
    """`steps`, `batches`: as counts of these are called."""
    return f"{unit}es" if unit.endswith(("s", "x", "ch", "sh")) else f"{unit}s"


def shown(value: Value) -> str:
    """A value as it stands beside a bar; a small number keeps its digits."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"


class progress(Generic[T]):  # noqa: N801  used like range() or tqdm()
    """Iterate with a bar; `show(loss=...)` sets what stands beside it.

    for batch in (bar := fleet.progress(batches, "epoch 0")):
        bar.show(loss=0.25)                     # epoch 0 ━━━━╸━━━━━  step 120/300  loss 0.2500  12.3 steps/s  15 s left

    On a terminal (also through fleetrun, for the worker it follows) it is a bar that moves; elsewhere a line every
    five seconds and one at the end. On workers other than the first pass `enabled=False`.

    A run that was resumed goes on where it was: `initial` is how many steps were done before, and `items` are those
    that are left, unless `total` says how many there are in all: `progress(range(120, 300), initial=120)`. Data of
    `fleet.data.shard` knows both itself. Rate and time left are those of this run. `unit` is what is counted.
    """

    def __init__(
        self,
        items: Iterable[T],
        label: str = "",
        total: int | None = None,
        enabled: bool = True,
        *,
        initial: int | None = None,
        unit: str = "step",
    ) -> None:
        self._items = items
        self._label = label
        self._given = initial, total
        self._enabled = enabled
        self._unit = unit
        self._values: dict[str, Value] = {}
        self._range()

    def show(self, **values: Value) -> None:
        """Set the values shown beside the bar; numbers among them are also reported, as by `fleet.report`."""
        self._values.update(values)
        reports.show(values)

    def __iter__(self) -> Iterator[T]:
        if not self._enabled:
            yield from self._items
            return
        tally = Tally(self._unit, *self._range())
        tally.values = self._values
        width = env.FLEET_TERMINAL_WIDTH.get()
        view = _Bar(self._label, tally, width) if width or sys.stdout.isatty() else _Lines(self._label, tally)
        with view:
            for item in self._items:
                yield item
                tally.done += 1
                view.update()

    def _range(self) -> tuple[int, int | None]:
        """Where to begin and to end; asked when a loop begins, for data that can be resumed has moved by then."""
        initial, total = self._given
        length, before = _length(self._items), getattr(self._items, "num_done", None)
        if before is not None:
            initial = before if initial is None else initial
        elif length is not None:
            length += initial or 0
        initial, total = initial or 0, length if total is None else total
        if initial < 0 or (total is not None and initial > total):
            most = "" if total is None else f", {total}"
            raise UsageError(f"progress: initial must be from 0 to the total{most}, got {initial}")
        return initial, total


def _length(items: object) -> int | None:
    try:
        return len(items)  # type: ignore[arg-type]  # asked of everything
    except TypeError:  # also from those that have lengths only sometimes, such as streams of batches
        return None


class _Lines:
    """One line now and then."""

    def __init__(self, label: str, tally: Tally) -> None:
        self._label = label
        self._tally = tally
        self._shown_at = time.monotonic()

    def __enter__(self) -> _Lines:
        return self

    def update(self) -> None:
        is_last = self._tally.done == self._tally.total  # its line comes at the end
        if not is_last and time.monotonic() - self._shown_at > _LINE_EVERY_S:
            self._shown_at = time.monotonic()
            self._print()

    def _print(self) -> None:
        print(f"{self._label}  {self._tally}".strip(), flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tally.is_over = True
        self._print()


class _Bar:
    """A moving bar drawn by rich; one that begins inside another is drawn below it, and leaves a line when it ends."""

    _outer: ClassVar[Progress | None] = None
    """What is being drawn in this process: two of them would write over each other."""

    def __init__(self, label: str, tally: Tally, width: int | None) -> None:
        self._label = label
        self._tally = tally
        self._is_inner = _Bar._outer is not None
        self._progress = _Bar._outer or _drawing(width)

    def __enter__(self) -> _Bar:
        tally = self._tally
        self._task = self._progress.add_task(self._label, total=tally.total, completed=tally.done, tally=tally)
        if not self._is_inner:
            _Bar._outer = self._progress
            self._progress.start()
        return self

    def update(self) -> None:
        self._progress.update(self._task, completed=self._tally.done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tally.is_over = True
        if self._is_inner:
            self._progress.remove_task(self._task)
            line = f"{self._label}  {self._tally}".strip()
            self._progress.console.print(line, markup=False, highlight=False)
            return
        _Bar._outer = None
        self._progress.stop()


def _drawing(width: int | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),  # a label or a path may hold brackets
        BarColumn(finished_style="green"),  # rich's own is, in 16 colours, that of a bar still empty
        TextColumn("{task.fields[tally]}", markup=False),  # made into text when it is drawn
        console=Console(force_terminal=True, width=width),
    )
