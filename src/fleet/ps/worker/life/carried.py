"""Gradients that one optimizer gathers over several batches while another steps on each of them.

They are in the memory of a worker and nowhere else. So what goes with its pushes is the moment before the first of
these batches, until the gradients have been used or dropped: its next life makes all these batches again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from fleet.observe.metrics.steps import StepCount
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.life.progress import ScriptProgress
from fleet.ps.worker.parts.contract import StepPart, Update

if TYPE_CHECKING:
    from fleet.ps.worker.sending.flat import FlatParameters


log = logging.getLogger(__name__)

MOST_STEPS = 64
"""So many steps are made again at the most."""


class Carried(StepPart):
    """Knows whether a step begins anew, or goes on with what the steps before it have left."""

    def __init__(self, progress: ScriptProgress, count: StepCount, flat: FlatParameters | None) -> None:
        """`flat`: dense parameters whose gradients are sent, if there are several optimizers."""
        self._progress, self._count = progress, count
        self._parameters: dict[int, list[torch.Tensor]] = {}
        for number, group in enumerate(() if flat is None else flat.groups):
            assert flat is not None
            if (parameter := flat.parameter(number)).requires_grad:  # running statistics do not
                self._parameters.setdefault(group, []).append(parameter)
        self._hooks = [
            one.register_post_accumulate_grad_hook(partial(self._arrived, group))
            for group, parameters in self._parameters.items()
            for one in parameters
        ]
        self._groups: set[int] = set()  # that have had gradients since they were last sent or zeroed
        self._lookups: list[Lookup] = []  # whose gradients no optimizer has sent
        self._from_before: tuple[set[int], list[Lookup]] = (
            set(),
            [],
        )  # those of them that had gradients before the batch
        self._num_steps = 0
        self._has_warned = False
        self.begins = True
        """Whether what is sent now belongs to a step that begins with it, and to none before."""

    def _arrived(self, group: int, _parameter: torch.Tensor) -> None:
        self._groups.add(group)

    def forward(self) -> None:
        if not self._progress.begin_forward(self._count):
            return
        groups = {group for group in self._groups if any(_is_there(one.grad) for one in self._parameters[group])}
        self._lookups = [one for one in self._lookups if _has_gradients(one)]
        self._from_before = groups, list(self._lookups)

    def looked_up(self, lookups: Sequence[Lookup]) -> None:
        self._lookups += lookups

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:
        groups, lookups = self._from_before
        goes_on = bool(groups) or any(map(_has_gradients, lookups))
        if is_new:
            self._num_steps = self._num_steps + 1 if goes_on else 1
        if goes_on and self._num_steps > MOST_STEPS:
            goes_on, self._num_steps = False, 1
            self._warn()
        self.begins = is_new and not goes_on
        self._lookups = [one for one in self._lookups if one not in used]
        self._from_before = groups, [one for one in lookups if one not in used]

    def before_push(self, update: Update) -> None:
        self.zeroed(update.gradients.lrs)

    def zeroed(self, groups: Collection[int]) -> None:
        self._groups.difference_update(groups)
        self._from_before[0].difference_update(groups)

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "an optimizer has gradients of %d steps ago that it has neither used nor dropped: if this worker is "
                "killed, its next life begins without them; call its zero_grad() if they are not meant to count",
                MOST_STEPS,
            )


def _is_there(gradient: torch.Tensor | None) -> bool:
    """Whether a gradient is more than zeros."""
    return gradient is not None and bool(gradient.any())


def _has_gradients(lookup: Lookup) -> bool:
    is_zeroed = lookup.weight is not None and lookup.weight.grad is None
    return lookup.row_gradients is not None and not is_zeroed


class StoredProgress(StepPart):
    """Tells a `ScriptProgress` what is trained, and has what it says stored with each push."""

    def __init__(self, progress: ScriptProgress, count: StepCount, carried: Carried) -> None:
        self._progress, self._count, self._carried = progress, count, carried

    def before_push(self, update: Update) -> None:
        num_of_others = self._count.num_of_others
        update.gradients.position = self._progress.capture(update.step - 1, num_of_others, is_new=self._carried.begins)
