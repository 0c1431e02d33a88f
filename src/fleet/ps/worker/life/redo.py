"""The last step of a worker's former life, made again as it was: with the rows and parameters that it was made with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from fleet.ps.worker.life.inputs import Inputs

if TYPE_CHECKING:
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.modes.base import PushPolicy
    from fleet.ps.worker.sending.flat import FlatParameters

log = logging.getLogger(__name__)


class Redo:
    """Keeps what each update is computed from, and gives it back to the next life of the worker.

    The updates `first` to `last` are made again; none if `first` is the greater.
    """

    def __init__(self, inputs: Inputs, flat: FlatParameters | None, policy: PushPolicy, first: int, last: int) -> None:
        self._inputs = inputs
        self._flat = flat
        self._policy = policy
        self._last = last
        self._looked_up: list[Lookup] = []
        if first <= last and not inputs.begin_again(first, last):
            log.warning(
                "what the last step of this worker's former life was computed from is not there: the step is made "
                "again with newer rows and parameters, and what the script computes from it is another"
            )

    def begin(self) -> None:
        """The script has come to the step."""
        if self._flat is not None and (dense := self._inputs.dense) is not None:
            self._flat.value_buffer.copy_(torch.from_numpy(dense.copy()))

    def note(self, lookups: Sequence[Lookup]) -> None:
        """Rows were looked up to be trained."""
        self._looked_up += lookups
        for lookup in lookups:
            if lookup.rows is not None:
                self._inputs.give(lookup.rows)

    def keep(self, step: int, update: int, *, is_new: bool) -> None:
        """An update is about to be sent."""
        if update > self._last:
            rows = [torch.empty(0) if one.rows is None else one.rows for one in self._looked_up]
            dense = None if self._flat is None else self._flat.value_buffer
            self._inputs.keep(step, update, dense, rows, is_new=is_new)
        self._looked_up.clear()

    def end_update(self, update: int) -> None:
        """An update was made; behind the last of those that are made again, what servers have is right again."""
        if update < self._last:
            self._inputs.end_update()
            self.begin()
        elif update == self._last:
            self._inputs.end_update()
            self._policy.refresh(is_exact=False)

    def close(self) -> None:
        """Let go of the files."""
        self._inputs.close()
