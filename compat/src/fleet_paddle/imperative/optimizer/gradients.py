"""What becomes of gradients between backward and the update: sparse ones, clips, penalties, updates row by row.

The gradient of `Embedding(sparse=True)` has only the rows of the batch. Where the update of a row without gradient is
no update, it stays so: plain SGD, and Adagrad, without decay; and Adam where `lazy_mode` asks for it, or by the rows
that ever had one (`optimizer.touched`). Elsewhere rows
that have no gradient move as well, by their moments or their decay: there the gradient becomes a dense one, and the
result is that of a dense embedding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from fleet_paddle.imperative.optimizer.dense_rows import DenseRows
from fleet_programs.backward.clip import (
    GradientClip,
    GradientClipByGlobalNorm,
    GradientClipByNorm,
    GradientClipByValue,
)

Group = dict[str, Any]

_GRAD: Any = torch._C.TensorBase.grad
_GET_GRAD, _SET_GRAD = _GRAD.__get__, _GRAD.__set__
"""Of the plain property: tensors of ours have one that gives the gradient a class, which nobody needs here."""

_TINY = 1e-6  # as torch.nn.utils.clip_grad_norm_ has it


def gradient_of(parameter: torch.Tensor) -> Any:
    """What backward has left for a parameter, or None."""
    return _GET_GRAD(parameter)


def drop(parameter: torch.Tensor) -> None:
    """Forget what backward has left for a parameter."""
    _SET_GRAD(parameter, None)


def settle(parameters: Sequence[torch.Tensor], stays_sparse: bool, dense: DenseRows) -> None:
    """Let the rows of sparse gradients be distinct, or let the gradients be dense."""
    for one in parameters:
        gradient = _GET_GRAD(one)
        if gradient is not None and gradient.is_sparse:
            _SET_GRAD(one, gradient.coalesce() if stays_sparse else dense.of(one, gradient))


def clip(parameters: Sequence[torch.Tensor], how: GradientClip) -> None:
    """Limit the gradients of those parameters that the clip concerns, in place."""
    wants: Any = how._need_clip
    values = [
        gradient._values() if gradient.is_sparse else gradient
        for one in parameters
        if (gradient := gradient_of(one)) is not None
        and getattr(one, "need_clip", True)
        and (wants is None or wants(one))
    ]
    if isinstance(how, GradientClipByGlobalNorm):
        _limit(values, how.clip_norm)
    elif isinstance(how, GradientClipByNorm):
        for one in values:
            _limit([one], how.clip_norm)
    elif isinstance(how, GradientClipByValue):
        for one in values:
            one.clamp_(how.min, how.max)


def _limit(values: list[torch.Tensor], most: float) -> None:
    if values:
        total = torch.nn.utils.get_total_norm(values)
        factor = torch.clamp(most / (total + _TINY), max=1.0)
        for one in values:
            one.mul_(factor.to(one.device))


def penalize(parameters: Sequence[torch.Tensor], penalty: Sequence[Any]) -> None:
    """Add to each gradient: coeff * sign(w) for L1, coeff * w for L2."""
    kind, coeff = penalty
    for one in parameters:
        gradient = gradient_of(one)
        if gradient is not None:
            gradient.add_(torch.sign(one) if kind == "l1" else one, alpha=coeff)


def adagrad_rows(parameter: torch.Tensor, gradient: torch.Tensor, group: Group, state: dict[str, Any]) -> bool:
    """Adagrad's update of the rows that a sparse gradient has; others would not move."""
    rows, values = gradient.indices()[0], gradient.values()
    state["step"] += 1
    total = state["sum"][rows] + values.square()
    state["sum"][rows] = total
    parameter[rows] -= group["lr"] * values / (total.sqrt() + group["eps"])
    return True


def adam_rows(parameter: torch.Tensor, gradient: torch.Tensor, group: Group, state: dict[str, Any]) -> bool:
    """Adam's update of the rows that a sparse gradient has; the moments of others stay, the count of steps is one.

    A decay apart from the gradient concerns every row, one that is part of it only these.
    """
    if not state:
        state["step"] = torch.tensor(0.0)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    rows, values = gradient.indices()[0], gradient.values()
    state["step"] += 1
    count, (beta1, beta2), rate = float(state["step"]), group["betas"], group["lr"]
    if group["decoupled_weight_decay"]:
        parameter.mul_(1 - rate * group["weight_decay"])
    elif group["weight_decay"]:
        values = values + group["weight_decay"] * parameter[rows]
    first = state["exp_avg"][rows].lerp(values, 1 - beta1)
    second = state["exp_avg_sq"][rows].mul(beta2).addcmul(values, values, value=1 - beta2)
    state["exp_avg"][rows], state["exp_avg_sq"][rows] = first, second
    root = second.sqrt() / math.sqrt(1 - beta2**count) + group["eps"]
    parameter[rows] -= rate / (1 - beta1**count) * first / root
    return True
