"""Training loops that lack a call: torch trains nothing then, or something else, and says nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from fleet.ps.worker.parts.contract import StepPart, Update

if TYPE_CHECKING:
    import torch

    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.sending.flat import FlatParameters

log = logging.getLogger(__name__)


class ForgottenCalls(StepPart):
    """Warns, once of each, where `backward`, `zero_grad` or `step` is not called."""

    def __init__(self, flat: FlatParameters | None) -> None:
        self._flat = flat
        self._is_looked_up = False
        self._has_stepped = False
        self._unzeroed: set[int] = set()  # tables that were stepped, and whose gradients nobody has dropped since
        self._trained: dict[int, torch.Tensor | None] = {}  # the tables of these steps, with the weight of a module
        self._given: dict[int, torch.Tensor | None] = {}  # the same of the step that is being made
        self._told: set[str] = set()

    def looked_up(self, lookups: Sequence[Lookup]) -> None:
        self._is_looked_up |= any(lookup.placement is None for lookup in lookups)  # hot rows are sent by others

    def rows_zeroed(self, tables: Collection[int] | None = None) -> None:
        """The gradients of the rows of some tables were dropped; None: of all, as far as is known."""
        self._unzeroed = set() if tables is None else self._unzeroed.difference(tables)

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:  # noqa: ARG002
        self._given = {
            lookup.table: lookup.weight for lookup in used if lookup.rows is not None and lookup.rows.grad is not None
        }

    def before_push(self, update: Update) -> None:
        gradients = update.gradients
        again = self._unzeroed.intersection(update.table_lrs)
        is_again = not self._given and any(_has_gradient(self._trained[table]) for table in again)
        if is_again:
            self._tell(
                "optimizer.step() came twice after one loss.backward(): layers were trained by the same gradients once "
                "more, rows were not; call optimizer.zero_grad(), loss.backward() and optimizer.step() once each"
            )
        if self._unzeroed.intersection(self._given):
            self._tell(
                "gradients were not dropped between two steps: those of layers add up, those of rows do not; call "
                "optimizer.zero_grad() before loss.backward()"
            )
        is_skipped = not gradients.lrs and not any(update.table_lrs.values())
        has_dense = self._flat is not None and self._flat.has_gradients()
        if self._is_looked_up and not (self._given or has_dense or is_skipped or is_again):
            self._tell(
                "a step has no gradients, so it trains nothing: call optimizer.zero_grad(), loss.backward() and "
                "optimizer.step() in this order"
            )

    def after_push(self, update: Update) -> None:  # noqa: ARG002
        self._has_stepped = True
        self._unzeroed.update(self._given)
        self._trained.update(self._given)

    def at_end(self) -> None:
        """The worker leaves in order."""
        if self._is_looked_up and not self._has_stepped:
            self._tell(
                "rows were looked up to be trained, and this worker has made no step: call optimizer.step(), or "
                "model.eval() where rows are only read"
            )

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning("%s", what)


def _has_gradient(weight: torch.Tensor | None) -> bool:
    """Whether nobody has zeroed the gradients of a module's rows, by whatever way, since they came."""
    return weight is not None and weight.grad is not None
