"""Gradients: what is kept for them, and how they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from fleet.errors import NotSupportedError
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_paddle.programs.variables.missing import not_built
from fleet_paddle.variables import has_variable

__all__ = ["grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


def no_grad(func: Callable[..., Any] | None = None) -> Any:
    """Inside, or in the function it decorates, nothing is kept for backward."""
    return torch.no_grad() if func is None else torch.no_grad()(func)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Tensor | None]:
    """The gradients of `outputs` with respect to `inputs`, added to none of them."""
    if has_variable((outputs, inputs)):
        raise not_built("grad")
    if not only_inputs or no_grad_vars is not None:
        raise NotSupportedError("grad: only_inputs=False and no_grad_vars are not built; use backward() and detach()")
    several = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    given = grad_outputs if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(several)
    starts = [torch.ones_like(out) if one is None else one for out, one in zip(several, given, strict=True)]
    made = torch.autograd.grad(several, inputs, starts, retain_graph, create_graph, allow_unused=allow_unused)
    return list(as_paddle(made))


def is_grad_enabled() -> bool:
    """Whether something is kept for backward now."""
    return torch.is_grad_enabled()


def set_grad_enabled(mode: bool) -> AbstractContextManager[None]:
    """Whether something is kept for backward inside."""
    return torch.set_grad_enabled(mode)
