"""Rows of activations that no operator's definition says: those in place, a clip, and `prelu` of a given weight."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.rows.function import function
from fleet_paddle.rows.function_builder import function_builder
from fleet_programs import layers
from fleet_programs.program.variable import Variable


def _softmax_in_place(x: torch.Tensor, axis: int, dtype: Any) -> torch.Tensor:
    return x.copy_(torch.softmax(x, axis, dtype=None if dtype is None else dtype_of(dtype)))


def _softmax_of_variables(x: Variable, axis: int, dtype: Any, name: str | None) -> Variable:
    return layers.softmax(x if dtype is None else layers.cast(x, dtype), name=name, axis=axis)


def _prelu_of_variables(x: Variable, weight: Variable, name: str | None) -> Variable:
    layer = function_builder("prelu", name)
    inputs = {"X": layer.variable(x, "x"), "Alpha": layer.variable(weight, "weight")}
    return layer.apply("prelu", inputs, {"mode": "all" if weight.shape == (1,) else "channel"}, x.dtype)


FUNCTIONS = [
    function("F.relu_(x, name)", "`relu`, in place.", torch.relu_, layers.relu),
    function("F.tanh_(x, name)", "`tanh`, in place.", torch.tanh_, layers.tanh),
    function(
        "F.elu_(x, alpha=1.0, name)", "`elu`, in place.", lambda x, alpha: F.elu(x, alpha, inplace=True), layers.elu
    ),
    function(
        "F.softmax_(x, axis=-1, dtype=None, name)", "`softmax`, in place.", _softmax_in_place, _softmax_of_variables
    ),
    function(
        "F.hardtanh(x, min=-1.0, max=1.0, name)",
        "x, clamped between `min` and `max`.",
        F.hardtanh,
        layers.clip,
        "Hardtanh",
    ),
    function(
        "F.prelu(x, weight, name)",
        "x where it is positive, weight * x elsewhere; the weight is one number, or one for each channel.",
        lambda x, weight: F.prelu(x, torch.reshape(weight, (-1,))),
        _prelu_of_variables,
        num_operands=2,
    ),
]
