"""`fleet.report(auc=0.79)`: what the script itself has to say, for the curves of the page and for Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from fleet.errors import UsageError, UsageTypeError
from fleet.observe.metrics.registry import Sample
from fleet.observe.metrics.steps import StepFigures, steps

MOST_NAMES = 100
"""How many names a process may report under: each is a curve, and a name made of a step's number never ends."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,79}")


class Reportable(Protocol):
    """A number, or a tensor of one element, on any device."""

    def __float__(self) -> float:
        """The value as a float."""


class Reports:
    """The last value under each name."""

    def __init__(self, counted: StepFigures) -> None:
        self._steps = counted
        self._values: dict[str, Reportable] = {}

    def report(self, **values: Reportable) -> None:
        """Show these values of this worker, such as its loss, as curves; the last of each name counts.

            fleet.report(loss=loss, auc=0.79)

        A value is a number or a tensor of one element. One on a GPU is not waited for: it is read about a second later,
        by another thread. `samples` is special: it is added to the samples that were trained on, which otherwise are
        counted by the first dimension of what the model is called with. Costs nothing where nobody could see it.
        """
        for name, value in values.items():
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"fleet.report: {name!r} is no name for a curve; use up to 80 letters, digits and _ . / -"
                )
            number = _readable(name, value)
            if name == "samples":
                self._steps.say_samples(_count(value))
                continue
            if name not in self._values and len(self._values) >= MOST_NAMES:
                raise UsageError(
                    f"fleet.report: {name!r} would be name {MOST_NAMES + 1} of this process; report under the same "
                    "names at every step"
                )
            self._values[name] = number

    def show(self, values: Mapping[str, object]) -> None:
        """Report the numbers among what stands beside a progress bar; what cannot be reported is left out."""
        for name, value in values.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_room = name in self._values or len(self._values) < MOST_NAMES
            if is_number and is_room and name != "samples" and _NAME.fullmatch(name):
                self._values[name] = value  # type: ignore[assignment]  # as was asked

    def read(self) -> Iterator[Sample]:
        """What was reported."""
        for name, value in list(self._values.items()):
            yield Sample("fleet_worker_reported", float(value), {"name": name})


def _readable(name: str, value: Any) -> Reportable:
    """The value itself, or a tensor on a device that is still to be read."""
    detach = getattr(value, "detach", None)
    if detach is not None:
        if value.numel() != 1:
            raise UsageTypeError(f"fleet.report: {name} must be one number, got a tensor of shape {tuple(value.shape)}")
        found: Reportable = detach()
        return found if value.device.type != "cpu" else float(found)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageTypeError(f"fleet.report: {name} must be a number, got {value!r:.80}") from None


def _count(value: Any) -> int:
    if int(value) != value or value < 0:
        raise UsageError(f"fleet.report: samples must be a whole number >= 0, got {value}")
    return int(value)


reports = Reports(steps)
"""What this process has reported."""
report = reports.report
