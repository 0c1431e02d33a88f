"""The last step of a worker's former life, made again as it was: with the rows and parameters that it was made with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.life.carried import Carried
from fleet.ps.worker.life.inputs import StepInputs
from fleet.ps.worker.parts.contract import StepPart, Update
from fleet.ps.worker.sending.flat import FlatParameters

if TYPE_CHECKING:
    from fleet.ps.worker.modes.base import PushPolicy

log = logging.getLogger(__name__)

MOST_READ = 1 << 24
"""So many values of rows that are only read are kept for each update: a script may evaluate without `eval()`."""


class Redo(StepPart):
    """Keeps what each update is computed from, and gives it back to the next life of the worker.

    The updates `first` to `last` are made again; none if `first` is the greater.
    """

    def __init__(
        self,
        inputs: StepInputs,
        flat: FlatParameters | None,
        policy: PushPolicy,
        carried: Carried,
        first: int,
        last: int,
    ) -> None:
        self._inputs = inputs
        self._carried = carried
        self._flat = flat
        self._policy = policy
        self._last = last
        self._rows: list[torch.Tensor] = []  # of the lookups since the last push
        self._num_read = 0
        if first <= last and not inputs.begin_again(first, last):
            log.warning(
                "what the last step of this worker's former life was computed from is not there: the step is made "
                "again with newer rows and parameters, and what the script computes from it is another"
            )

    def begin_again(self) -> None:
        """Give the model the dense parameters that the update was made with."""
        if self._flat is not None and (dense := self._inputs.dense) is not None:
            self._flat.value_buffer.copy_(torch.from_numpy(dense.copy()))

    def looked_up(self, lookups: Sequence[Lookup]) -> None:
        self._note(lookups)

    def read(self, lookups: Sequence[Lookup]) -> None:
        self._num_read += sum(one.rows.numel() for one in lookups if one.rows is not None)
        self._note(lookups, is_kept=self._num_read <= MOST_READ)

    def _note(self, lookups: Sequence[Lookup], *, is_kept: bool = True) -> None:
        for lookup in lookups:
            self._rows.append(lookup.rows if lookup.rows is not None and is_kept else torch.empty(0))
            if lookup.rows is not None:
                self._inputs.give(lookup.rows)

    def before_push(self, update: Update) -> None:
        if update.gradients.steps > self._last:
            dense = None if self._flat is None else self._flat.value_buffer
            self._inputs.keep(update.gradients.steps, dense, self._rows, is_new=self._carried.begins)
        self._rows.clear()
        self._num_read = 0

    def after_push(self, update: Update) -> None:
        """After the last update that is made again, go on with what the servers have."""
        if update.gradients.steps < self._last:
            self._inputs.end_update()
            self.begin_again()
        elif update.gradients.steps == self._last:
            self._inputs.end_update()
            self._policy.refresh(is_exact=False)

    def close(self) -> None:
        self._inputs.close()
