"""Functions for which torch has the meaning, and but for `axis` and `name` the arguments: they give our tensors."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet.imperative.tensor import Tensor, own


def _one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `x`; what comes after it is as torch has it, `axis` standing for `dim`."""

    def call(x: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
        if "axis" in kwargs:
            kwargs["dim"] = kwargs.pop("axis")
        return own(function(x, *args, **kwargs))

    return _named(call, function)


def _two(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of `x` and `y`."""

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        return own(function(x, y))

    return _named(call, function)


def _named(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`torch.{function.__name__}`, which gives our tensors."
    return call


def clip(x: torch.Tensor, min: Any = None, max: Any = None, name: str | None = None) -> Tensor:
    """Every element between `min` and `max`."""
    return own(x if min is None and max is None else torch.clamp(x, min, max))


def where(condition: torch.Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where the condition holds, else `y`; with the condition alone, the places where it holds."""
    return own(torch.where(condition) if x is None and y is None else torch.where(condition, x, y))


def norm(x: torch.Tensor, p: Any = "fro", axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The length of vectors, the Frobenius norm of all by default."""
    order = 2 if p == "fro" else p
    made: torch.Tensor = torch.linalg.vector_norm(x, order, axis, keepdim)
    return own(made)


def tile(x: torch.Tensor, repeat_times: Any, name: str | None = None) -> Tensor:
    """As many copies along each dimension."""
    return own(torch.tile(x, tuple(repeat_times)))


def expand(x: torch.Tensor, shape: Any, name: str | None = None) -> Tensor:
    """As if copied along dimensions of size 1; -1 keeps a size."""
    return own(x.expand(tuple(shape)))


abs = _one(torch.abs)
all = _one(torch.all)
any = _one(torch.any)
argsort = _one(torch.argsort)
ceil = _one(torch.ceil)
chunk = _one(torch.chunk)
cos = _one(torch.cos)
cumsum = _one(torch.cumsum)
diag = _one(torch.diag)
exp = _one(torch.exp)
floor = _one(torch.floor)
isfinite = _one(torch.isfinite)
isinf = _one(torch.isinf)
isnan = _one(torch.isnan)
log = _one(torch.log)
log1p = _one(torch.log1p)
logical_not = _one(torch.logical_not)
logsumexp = _one(torch.logsumexp)
masked_select = _one(torch.masked_select)
prod = _one(torch.prod)
reciprocal = _one(torch.reciprocal)
round = _one(torch.round)
rsqrt = _one(torch.rsqrt)
sign = _one(torch.sign)
sin = _one(torch.sin)
sort = _one(torch.sort)
sqrt = _one(torch.sqrt)
square = _one(torch.square)
std = _one(torch.std)
t = _one(torch.t)
tanh = _one(torch.tanh)
topk = _one(torch.topk)
tril = _one(torch.tril)
triu = _one(torch.triu)
unbind = _one(torch.unbind)
unique = _one(torch.unique)
var = _one(torch.var)

add = _two(torch.add)
bmm = _two(torch.bmm)
divide = _two(torch.divide)
dot = _two(torch.dot)
floor_divide = _two(torch.floor_divide)
greater_equal = _two(torch.greater_equal)
greater_than = _two(torch.greater)
less_equal = _two(torch.less_equal)
less_than = _two(torch.less)
logical_and = _two(torch.logical_and)
logical_or = _two(torch.logical_or)
logical_xor = _two(torch.logical_xor)
maximum = _two(torch.maximum)
minimum = _two(torch.minimum)
mm = _two(torch.mm)
mod = _two(torch.remainder)
multiply = _two(torch.multiply)
not_equal = _two(torch.not_equal)
pow = _two(torch.pow)
subtract = _two(torch.subtract)
