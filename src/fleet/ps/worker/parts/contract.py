"""The contract of what hangs on the steps of a worker: prefetching, hot rows, figures, what a next life needs.

`fleet.ps.worker.worker.Worker` is given its parts when it is made, and nobody changes them later. It calls them, on the
thread that trains, at these moments of a step:

    forward()             rows are about to be looked up, to be trained
    looked_up(lookups)    they are there
    read(lookups)         rows are there that a module in training only reads, as under `torch.no_grad()`
    begin(used, is_new)   an optimizer steps: `used` are the lookups whose gradients it trains
    before_push(update)   every gradient is there and may be sent; it goes out when all parts have been called
    after_push(update)    the mode has sent it, or the servers have it from a former life

These three come once for each call of a module, so several times in a step or, in evaluation, never.
Parts are called in their order, and at `after_push` in the opposite one: what is around others ends last. A part that
raises ends the step: the parts behind it are not called, and `begin` is what comes next. So a part keeps nothing
between `begin` and `after_push` that a second `begin` would not put right.

Beside steps there are `zeroed(groups)`, after `optimizer.zero_grad()`, and `close()`, when the worker goes, however it
does: it may come at any moment, and again. No part changes what is computed, but for when and where.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fleet.observe.metrics.steps import StepCount

if TYPE_CHECKING:
    from fleet.ps.hot.hot_rows import SlotPlacement
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.sending.gradients import Gradients


@dataclass
class Done:
    """How much a worker has done. The worker counts; others read."""

    num_steps: int = 0
    """The step that comes next, as its servers count; in sync mode that of all workers."""
    num_updates: int = 0
    """How often an optimizer has stepped, in all lives of the worker: each time is a push of its own."""
    num_lookups: int = 0
    """How often rows were looked up to be trained."""
    count: StepCount = field(default_factory=StepCount)
    """Counts the steps of all lives."""


@dataclass(frozen=True)
class Update:
    """What one step of an optimizer sends."""

    gradients: Gradients
    table_lrs: Mapping[int, float]
    """The learning rates of the tables that it trains."""
    step: int
    """How many steps have begun, this one with them."""
    is_new: bool
    """Whether the step begins with it: no other optimizer has stepped in it."""


class StepPart:
    """One thing that hangs on the steps of a worker; at a moment that does not concern it, it does nothing."""

    def forward(self) -> None:
        """Rows are about to be looked up, to be trained."""

    def looked_up(self, lookups: Sequence[Lookup]) -> None:
        """Rows that will be trained have been looked up."""

    def read(self, lookups: Sequence[Lookup]) -> None:
        """Rows that will not be trained have been looked up for a step."""

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:
        """An optimizer steps, and trains what these lookups have; `is_new`: a step begins with it."""

    def before_push(self, update: Update) -> None:
        """The gradients of a step are about to be sent; `update.gradients.position` may be set."""

    def after_push(self, update: Update) -> None:
        """The gradients have been sent, as the mode does it."""

    def zeroed(self, groups: Collection[int]) -> None:
        """The gradients of some dense groups were dropped, or set to zeros."""

    def close(self) -> None:
        """Let go of everything; idempotent."""


class AtClose(StepPart):
    """Something to be undone when the worker goes, and nothing else."""

    def __init__(self, *undo: Callable[[], None]) -> None:
        self._undo = [*undo]

    def close(self) -> None:
        while self._undo:
            self._undo.pop()()


class NoHotTables(StepPart):
    """The contract, and a job without such tables. `fleet.ps.hot.hot_tables` is for a job with some."""

    sizes: Mapping[int, int] = {}
    """How many rows of each table are here at least."""

    def __contains__(self, table: int) -> bool:
        """Whether hot rows of a table are trained here. The methods below are for lookups of such tables."""
        return False

    def expect(self, table: int) -> SlotPlacement:
        """The placement of a lookup of a table, which `place` will fill in."""
        raise NotImplementedError(table)

    def place(self, lookup: Lookup, placement: SlotPlacement) -> None:
        """Have the rows of a lookup here for as long as it lives; called in the side thread."""

    def fill(self, lookup: Lookup) -> None:
        """Give a lookup that was placed the rows as they are now."""
