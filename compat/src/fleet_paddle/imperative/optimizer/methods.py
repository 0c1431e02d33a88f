"""PaddlePaddle's names for an optimizer's methods, over torch's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.optim import Optimizer

from fleet.errors import NotReadyError, NotSupportedError, UsageError


class PaddleMethods:
    """Mixed into an optimizer: `clear_grad`, `get_lr`, `set_lr`, `minimize`, `set_state_dict`."""

    def clear_grad(self: Any) -> None:
        """Drop the gradients; torch calls it `zero_grad`."""
        self.zero_grad()

    clear_gradients = clear_grad

    def get_lr(self: Any) -> float:
        """The present learning rate."""
        for group in self.param_groups:
            factor = float(group.get("lr_factor", 1.0))
            if factor > 0:  # parameters with a factor of 0 stay, whatever the rate
                return float(group["lr"]) / factor
        return 0.0

    def set_lr(self: Any, value: float) -> None:
        """Another learning rate from the next step on; one that a schedule decides cannot be set."""
        if not value >= 0:
            raise UsageError(f"set_lr: the learning rate must be >= 0, got {value!r}")
        if self.param_groups[0].get("is_scheduled"):
            raise UsageError(
                "set_lr: a schedule decides this optimizer's learning rate; call its step(), or leave it out"
            )
        apply_rate(self, float(value))

    def backward(
        self: Any,
        loss: torch.Tensor,  # noqa: ARG002 - backward has made gradients of it
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The parameters and the gradients that `loss.backward()` has left; `apply_gradients` takes them."""
        if not (startup_program is parameters is no_grad_set is callbacks is None):
            raise NotSupportedError("backward takes the loss alone; give parameters to the optimizer itself")
        return [(one, one.grad) for group in self.param_groups for one in group["params"] if one.grad is not None]

    def apply_gradients(self: Any, params_grads: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[Any]:
        """One step with these gradients, each beside its parameter."""
        for parameter, gradient in params_grads:
            parameter.grad = gradient
        self.step()
        return []

    def minimize(
        self: Any,
        loss: torch.Tensor,  # noqa: ARG002 - backward has made gradients of it
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], list[tuple[torch.Tensor, torch.Tensor]]]:
        """One step with the gradients that `loss.backward()` has left; they are given back beside their parameters."""
        if startup_program is not None or parameters is not None or no_grad_set is not None:
            raise NotSupportedError("minimize takes the loss alone; give parameters to the optimizer itself")
        pairs = [(one, one.grad) for group in self.param_groups for one in group["params"] if one.grad is not None]
        if not pairs:
            raise NotReadyError("minimize: there are no gradients; call loss.backward() first")
        self.step()
        return [], pairs

    def set_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict()` gave; torch calls it `load_state_dict`."""
        self.load_state_dict(state_dict)

    set_dict = set_state_dict


def apply_rate(optimizer: Any, rate: float) -> None:
    """Give every group the learning rate, times the factor that is its own."""
    groups: Sequence[dict[str, Any]] = optimizer.param_groups
    for group in groups:
        group["lr"] = rate * group.get("lr_factor", 1.0)


def with_methods(optimizer: Optimizer) -> Optimizer:
    """The same optimizer, called by PaddlePaddle's names too."""
    if not isinstance(optimizer, PaddleMethods):
        kind: Any = type(optimizer)
        optimizer.__class__ = _with_methods(kind)
    return optimizer


@cache
def _with_methods(kind: type[Any]) -> type[Any]:
    return type(kind.__name__, (PaddleMethods, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
