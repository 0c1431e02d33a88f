"""Activations that no row of the table can say: those in place, and `prelu`, whose weight has a shape to fit."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.imperative.nn.functional.table import softmax
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = ["elu_", "prelu", "relu_", "softmax_", "tanh_"]


def relu_(x: torch.Tensor, name: str | None = None) -> Tensor:
    """`relu`, in place."""
    return own(torch.relu_(x))


def tanh_(x: torch.Tensor, name: str | None = None) -> Tensor:
    """`tanh`, in place."""
    return own(torch.tanh_(x))


def elu_(x: torch.Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """`elu`, in place."""
    return own(F.elu(x, alpha, inplace=True))


def softmax_(x: torch.Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """`softmax`, in place."""
    return own(x.copy_(softmax(x, axis, dtype)))


def prelu(x: torch.Tensor, weight: torch.Tensor, name: str | None = None) -> Tensor:
    """x where it is positive, weight * x elsewhere; the weight is one number, or one for each channel."""
    return own(F.prelu(x, torch.reshape(weight, (-1,))))
