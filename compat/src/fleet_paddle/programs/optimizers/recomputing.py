"""`RecomputeOptimizer`: another optimizer, whose backward computes values again instead of keeping them.

sgd = RecomputeOptimizer(SGD(0.01))
sgd._set_checkpoints([hidden, prediction])
sgd.minimize(loss)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleet.errors import NotReadyError, NotSupportedError, UsageTypeError
from fleet_programs.backward.backward import ParamsGrads
from fleet_programs.definition.operator import Operator
from fleet_programs.optimizer import Optimizer
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.transpiler.passes.recompute import recompute


def checked(what: str, optimizer: Any, loss: Any = None) -> Any:
    """The optimizer that another is made around; UsageTypeError if it, or a loss, is none of programs."""
    if not isinstance(optimizer, Optimizer):
        raise UsageTypeError(f"{what}: the optimizer must be one of programs, got {type(optimizer).__name__}")
    if loss is not None and not isinstance(loss, Variable):
        raise UsageTypeError(
            f"{what}: the loss must be that of a program, got {type(loss).__name__}; call paddle.enable_static() first"
        )
    return optimizer


class RecomputeOptimizer(Optimizer):
    """An optimizer of programs whose `minimize` repeats forward operators between checkpoints in backward."""

    type = "recompute"

    def __init__(self, optimizer: Any) -> None:
        self.inner = checked("RecomputeOptimizer", optimizer)
        self._checkpoints: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _set_checkpoints(self, checkpoints: Sequence[Variable | str]) -> None:
        """Which values between layers are kept; all others before the last of them are computed again."""
        if not isinstance(checkpoints, list | tuple) or not all(isinstance(one, Variable | str) for one in checkpoints):
            raise UsageTypeError(f"_set_checkpoints: give a list of variables or names, got {checkpoints!r}")
        self._checkpoints = [one if isinstance(one, str) else one.name for one in checkpoints]

    def load(self, state_dict: Any) -> None:  # noqa: ARG002
        """Refused, as in PaddlePaddle."""
        raise NotSupportedError("RecomputeOptimizer.load: load the state with static.load, which has that of programs")

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> ParamsGrads:
        """Add the gradients, then what they need once more."""
        checked("RecomputeOptimizer", self.inner, loss)
        if not self._checkpoints:
            raise NotReadyError(
                "RecomputeOptimizer: there are no checkpoints; give values between layers: _set_checkpoints([hidden])"
            )
        pairs = self.inner.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)
        program = loss.block.program
        program.become(recompute(program, self._checkpoints))
        block = program.global_block()
        return [(parameter, block.var(gradient.name)) for parameter, gradient in pairs]

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Add the updates of the optimizer that this is around."""
        return list(self.inner.apply_gradients(params_grads))
