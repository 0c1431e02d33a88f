"""Weights beside those that are trained: `LookAhead` and `ModelAverage`, of tensors and of programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from fleet.errors import NotReadyError, UsageError
from fleet_paddle.programs.ops.training.averages import accumulate
from fleet_paddle.programs.optimizers import model_average
from fleet_paddle.programs.optimizers.around import LookaheadOptimizer, steps_of
from fleet_programs.parameters.settings import number
from fleet_programs.program.variable import Variable


class LookAhead:
    """Every `k` steps, slow weights go the part `alpha` of the way to the weights, and these become the slow ones.

    Slow weights begin as the weights after the first step. What is not here is the inner optimizer's own.
    """

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5, name: str | None = None) -> None:  # noqa: ARG002
        self.inner_optimizer = inner_optimizer
        self.alpha = number("LookAhead", "alpha", alpha, least=0)
        if self.alpha > 1:
            raise UsageError(f"LookAhead: alpha must be at most 1, got {alpha}")
        self.k = steps_of("LookAhead", "k", k)
        self.type = "lookahead"
        self._slow: dict[torch.Tensor, torch.Tensor] = {}
        self._num_steps = 0

    def __getattr__(self, name: str) -> Any:
        if name == "inner_optimizer":  # a copy asks before it has one
            raise AttributeError(name)
        return getattr(self.inner_optimizer, name)

    def step(self) -> None:
        """The inner optimizer's step; after every `k` of them the weights become the slow ones."""
        trained = _with_gradients(self.inner_optimizer)
        self.inner_optimizer.step()
        self._look(trained)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], list[Any]]:
        """The same after the inner optimizer's `minimize`; of a program, as a part of each of its steps."""
        if isinstance(loss, Variable):
            if not (parameters is no_grad_set is None):
                raise UsageError("LookAhead.minimize: give parameters and no_grad_set to the inner optimizer")
            return LookaheadOptimizer(self.inner_optimizer, self.alpha, self.k).minimize(loss, startup_program)
        trained = _with_gradients(self.inner_optimizer)
        made: tuple[list[Any], list[Any]] = self.inner_optimizer.minimize(
            loss, startup_program, parameters, no_grad_set
        )
        self._look(trained)
        return made

    @torch.no_grad()
    def _look(self, trained: Sequence[torch.Tensor]) -> None:
        self._num_steps += 1
        is_due = self._num_steps % self.k == 0
        for one in trained:
            slow = self._slow.get(one)
            if slow is None:
                slow = self._slow[one] = one.detach().clone()
            if is_due:
                one.copy_(slow.lerp_(one, self.alpha))


class ModelAverage:
    """Averages of parameters over the last steps; `with average.apply():` puts them in their place for a while.

    Up to the share `average_window_rate` of all steps, and at least `min_average_window` and at most
    `max_average_window` of them, are added up before older ones are forgotten. Without `parameters` those of the
    default program are meant, and the averages are part of each of its steps.
    """

    def __new__(
        cls,
        average_window_rate: float,
        parameters: Any = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ) -> Any:
        if parameters is None:
            return model_average.ModelAverage(average_window_rate, min_average_window, max_average_window, name=name)
        return super().__new__(cls)

    def __init__(
        self,
        average_window_rate: float,
        parameters: Any = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,  # noqa: ARG002
    ) -> None:
        self._window: dict[str, Any] = {
            "share": number("ModelAverage", "average_window_rate", average_window_rate, least=0),
            "least": int(number("ModelAverage", "min_average_window", min_average_window, least=0)),
            "most": int(number("ModelAverage", "max_average_window", max_average_window, least=1)),
        }
        self._sums = {one: _sums_of(one) for one in parameters}
        self._instead: dict[torch.Tensor, torch.Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Add the present values of those that have a gradient; called after the optimizer's own step."""
        for one, sums in self._sums.items():
            if one.grad is not None:
                accumulate(one, *sums, **self._window)

    def minimize(
        self,
        loss: Any,  # noqa: ARG002 - backward has made gradients of it
        startup_program: Any = None,  # noqa: ARG002
        parameters: Any = None,  # noqa: ARG002
        no_grad_set: Any = None,  # noqa: ARG002
    ) -> None:
        """As `step`."""
        self.step()

    def clear_grad(self) -> None:
        """Drop the gradients of its parameters."""
        for one in self._sums:
            one.grad = None

    @contextmanager
    def apply(self, executor: Any = None, need_restore: bool = True) -> Iterator[None]:  # noqa: ARG002
        """The parameters are their averages in here, and with `need_restore` no longer."""
        with torch.no_grad():
            for one, (newest, newer, old, count, old_count, _) in self._sums.items():
                if num := int(count + old_count):
                    self._instead[one] = one.detach().clone()
                    one.copy_((newest + newer + old) / num)
        try:
            yield
        finally:
            if need_restore:
                self.restore()

    @torch.no_grad()
    def restore(self, executor: Any = None) -> None:  # noqa: ARG002
        """The parameters as they were before `apply`."""
        for one, values in self._instead.items():
            one.copy_(values)
        self._instead = {}


def _with_gradients(optimizer: Any) -> list[torch.Tensor]:
    groups = getattr(optimizer, "param_groups", None)
    if groups is None:
        raise NotReadyError("LookAhead: the inner optimizer has no tensors to step; for a program call minimize(loss)")
    return [one for group in groups for one in group["params"] if one.grad is not None]


def _sums_of(parameter: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Three sums, and the three numbers of steps that go with them."""
    sums = [torch.zeros_like(parameter, requires_grad=False) for _ in range(3)]
    return *sums, *(torch.zeros(1, dtype=torch.int64, device=parameter.device) for _ in range(3))
