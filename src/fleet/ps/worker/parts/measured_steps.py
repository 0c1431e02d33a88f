"""Tells `fleet.observe.metrics` and traces when a step of a worker begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.observe.metrics.registry import registry
from fleet.observe.metrics.steps import steps
from fleet.ps.wire import traced
from fleet.ps.worker.parts import meters
from fleet.ps.worker.parts.contract import StepPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.observe.metrics.step_count import StepCount
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.parts.contract import Update


class MeasuredSteps(StepPart):
    """Measures each step. It is around all other parts, whose time belongs to the step."""

    def __init__(self, count: StepCount) -> None:
        self._count = count
        steps.inside, steps.count = meters.training_s, count
        registry.remove(meters.read)
        registry.add(meters.read)
        traced.prepare()

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:  # noqa: ARG002
        steps.begin_step(is_new=is_new)

    def after_push(self, update: Update) -> None:  # noqa: ARG002
        steps.end_step(is_whole=self._count.is_whole)
