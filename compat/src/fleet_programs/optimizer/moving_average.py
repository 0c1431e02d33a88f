"""`ExponentialMovingAverage`: averages of parameters over the steps, which often predict better than the last values.

SGD(0.1).minimize(loss)
ema = ExponentialMovingAverage(0.999)
ema.update()                          # part of every step from now on
...
with ema.apply(exe):
    exe.run(test_program, ...)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.definition.operator import OPTIMIZE
from fleet_programs.executor.scope import global_scope
from fleet_programs.expressions import names
from fleet_programs.layers.table import elementwise_min, fill_constant, scale, sums
from fleet_programs.layers.tensor import assign
from fleet_programs.parameters.initializer import Constant
from fleet_programs.parameters.settings import number
from fleet_programs.program.program import default_main_program, default_startup_program
from fleet_programs.program.variable import Variable


class Averages(ABC):
    """Averages of parameters that a program keeps, to be put in the parameters' place for a while."""

    def __init__(self) -> None:
        self._before: dict[str, torch.Tensor] = {}

    @abstractmethod
    def averages(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The average of each parameter by its name, from the values of a scope; none before the first step."""

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """Inside, parameters of the global scope are their averages; with `need_restore` False until `restore`."""
        if self._before:
            raise UsageError(f"{type(self).__name__}.apply: the averages are applied already; restore() first")
        tensors = global_scope().tensors
        found = self.averages(tensors)
        self._before = {name: tensors[name].clone() for name in found}
        for name, average in found.items():
            tensors[name].copy_(average)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:  # noqa: ARG002 - where the values are, they stay
        """Parameters as they were before `apply`."""
        before, self._before = self._before, {}
        for name, value in before.items():
            global_scope().tensors[name].copy_(value)


class ExponentialMovingAverage(Averages):
    """An average of every trainable parameter in which step t has the weight decay^(T - t), T steps after the first.

    `thres_steps` is a count of steps as a variable; then the decay of a step is at most (1 + steps) / (10 + steps), so
    that the average follows quickly at first.
    """

    def __init__(self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None) -> None:
        super().__init__()
        self._decay = number("ExponentialMovingAverage", "decay", decay, least=0)
        if self._decay >= 1:
            raise UsageError(f"ExponentialMovingAverage: decay must be below 1, got {decay}")
        if thres_steps is not None and not isinstance(thres_steps, Variable):
            raise UsageTypeError(f"ExponentialMovingAverage: thres_steps must be a variable, got {thres_steps!r}")
        self._steps = thres_steps
        self._name = name or ""
        self._averages: dict[str, str] = {}
        self._left = ""

    def update(self) -> None:
        """Add to the default program what keeps the averages, after the optimizer's updates; once."""
        program = default_main_program()
        parameters = [one for one in program.global_block().all_parameters() if one.trainable]
        if self._averages or not parameters:
            raise UsageError("ExponentialMovingAverage.update: call it once, in a program with trainable parameters")
        with program.adding(OPTIMIZE):
            decay = self._of_step()
            self._left = kept(f"{self._name}ema_left", (1,), 1.0).name
            left = program.global_block().var(self._left)
            assign(left * decay, left)
            for one in parameters:
                average = kept(f"{one.name}_{self._name}ema", one.shape, 0.0)
                assign(sums([average * decay, one * (1.0 - decay)]), average)
                self._averages[one.name] = average.name

    def averages(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if self._left not in tensors:
            raise NotReadyError(
                "ExponentialMovingAverage.apply: there are no averages; call update() and run the startup program"
            )
        share = 1.0 - float(tensors[self._left])
        return {name: tensors[average] / share for name, average in self._averages.items()} if share > 0 else {}

    def _of_step(self) -> Variable:
        """The decay of a step."""
        decay = fill_constant([1], "float32", self._decay)
        if self._steps is None:
            return decay
        steps = self._steps if self._steps.dtype == "float32" else self._steps.astype("float32")
        return elementwise_min(decay, scale(steps, bias=1.0) / scale(steps, bias=10.0))


def kept(stem: str, shape: Sequence[int], start: float, dtype: str = "float32") -> Variable:
    """A variable of the default program that lasts and that the startup program begins with `start`."""
    block, startup = default_main_program().global_block(), default_startup_program().global_block()
    name = names.generate(stem, block.has_var)
    Constant(start)(startup.create_var(name, shape, dtype, persistable=True), startup)
    return block.create_var(name, shape, dtype, persistable=True, stop_gradient=True)
