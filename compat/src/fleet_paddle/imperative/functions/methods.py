"""The functions as methods: those that torch's tensors lack, and those that torch means otherwise.

Where torch has a method of the same name, code that is written for torch (`callers`) gets torch's: it means sizes by
`split(2, 1)` where a script means a number of parts. So does a call that only torch's can be, such as
`x.gather(0, index)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from fleet_paddle.imperative.callers import MEANS_TORCH
from fleet_paddle.imperative.functions import (
    asking,
    linear,
    manipulation,
    ordering,
    picking,
    pointwise,
    reduction,
    table,
)
from fleet_paddle.imperative.tensor import Tensor, own

_OURS = {
    asking: "is_empty isclose allclose equal_all rank",
    linear: "cross diag dist dot trace",
    manipulation: "broadcast_to expand expand_as flatten flatten_ flip reshape reshape_ roll split squeeze squeeze_ "
    "tile unsqueeze unsqueeze_ unstack",
    ordering: "histogram sort unique",
    picking: "gather gather_nd index_sample index_select nonzero scatter scatter_ scatter_nd_add slice strided_slice "
    "where",
    pointwise: "scale",
    reduction: "argmax argmin cumsum median",
    table: "equal floor_mod greater_than less_than logsumexp matmul max min mod norm prod remainder round stanh sum",
}

_FRAME = sys._getframe

_BY_DIMENSION = frozenset({"gather", "index_select", "scatter", "scatter_"})
"""Methods that torch gives a number first, and Paddle a tensor."""

_SEVERAL = frozenset({"expand", "flip", "reshape", "tile"})
"""Methods that torch gives numbers one by one too."""


def install() -> None:
    """Give Tensor the methods."""
    for module, names in _OURS.items():
        for name in names.split():
            function, base = getattr(module, name), getattr(torch.Tensor, name, None)
            setattr(Tensor, name, function if base is None else _method(name, function, base))


def _method(name: str, function: Callable[..., Any], base: Callable[..., Any]) -> Callable[..., Any]:
    takes_number, takes_several, is_where = name in _BY_DIMENSION, name in _SEVERAL, name == "where"

    @wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if MEANS_TORCH[_FRAME(1).f_code.co_filename]:
            return own(base(self, *args, **kwargs))
        if args and ((takes_number and isinstance(args[0], int)) or (is_where and self.dtype is not torch.bool)):
            return own(base(self, *args, **kwargs))
        if takes_several and args and isinstance(args[0], int):
            args = (args,)
        if "dim" in kwargs:
            kwargs["axis"] = kwargs.pop("dim")
        return function(self, *args, **kwargs)

    return method
