"""Rows of arithmetic that is no single operator."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.rows import operators
from fleet_paddle.rows.function import function
from fleet_programs import layers
from fleet_programs.expressions.signs import combine
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


def _scale(x: torch.Tensor, scale: Any, bias: Any, bias_after_scale: bool, act: str | None) -> Any:
    made = x * scale + bias if bias_after_scale else (x + bias) * scale
    return made if act is None else _activation(act)(made)


@cache
def _activation(name: str) -> Any:
    """The function of `nn.functional` of this name that is one operator, as layers of programs take it for `act`."""
    found = [one for one in operators.functions() if one.spelling.name == name and one.num_operands == 1]
    if not found:
        raise UsageError(f"scale: there is no activation {name!r}; use relu, tanh, sigmoid, softmax, ...")
    return found[0].compiled()


def _scale_of(x: Variable, scale: Any, bias: float, after: bool, act: str | None, name: str | None) -> Variable:
    if not isinstance(scale, Variable):
        return layers.scale(x, scale, bias, after, act, name)
    made = combine(x, scale, "elementwise_mul") + bias if after else (x + bias) * scale
    return LayerBuilder("scale", name).activate(made, act)


def _power(x: Variable, y: Any, name: str | None) -> Variable:
    return layers.elementwise_pow(x, y, name=name) if isinstance(y, Variable) else layers.pow(x, y, name)


FUNCTIONS = [
    function("tanh_(x, name)", "`tanh`, in place.", torch.Tensor.tanh_, layers.tanh),
    function("pow(x, y, name)", "x to the power of y, which may be a number.", torch.pow, _power),
    function(
        "scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name)",
        "scale * x + bias, or scale * (x + bias); then `act`, the name of one of `nn.functional`.",
        _scale,
        _scale_of,
    ),
    function(
        "increment(x, value=1.0, name)",
        "x + value, in place.",
        lambda x, value: x.add_(value),
        lambda x, value, name: layers.increment(x, value),
    ),
]
