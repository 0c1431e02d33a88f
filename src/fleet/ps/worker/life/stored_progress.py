"""The place of a worker in its script goes with every push: for its next life, in a durable job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.observe.metrics.steps import StepCount
from fleet.ps.worker.life.progress import ScriptProgress
from fleet.ps.worker.parts.contract import StepPart, Update

if TYPE_CHECKING:
    from fleet.ps.worker.life.carried import Carried


class StoredProgress(StepPart):
    """Tells a `ScriptProgress` what is trained, and has what it says stored with each push."""

    def __init__(self, progress: ScriptProgress, count: StepCount, carried: Carried) -> None:
        self._progress, self._count, self._carried = progress, count, carried

    def before_push(self, update: Update) -> None:
        num_of_others = self._count.num_of_others
        update.gradients.position = self._progress.capture(update.step - 1, num_of_others, is_new=self._carried.begins)
