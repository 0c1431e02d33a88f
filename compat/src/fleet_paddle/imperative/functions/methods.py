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
from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_paddle.imperative.wrapping import dressed
from fleet_paddle.rows.listing import functions

_OTHERWISE = (
    *("allclose", "argmax", "argmin", "broadcast_to", "cross", "cumsum", "diag", "dist", "dot", "equal", "expand"),
    *("expand_as", "flatten", "flip", "gather", "histogram", "index_select", "isclose", "logsumexp", "matmul", "max"),
    *("median", "min", "nonzero", "norm", "prod", "remainder", "reshape", "roll", "round", "scatter", "scatter_"),
    *("sort", "split", "squeeze", "squeeze_", "sum", "tile", "trace", "unique", "unsqueeze", "unsqueeze_", "where"),
)
"""Methods that torch has too and means otherwise, or gives other arguments."""

_FRAME = sys._getframe

_BY_DIMENSION = frozenset({"gather", "index_select", "scatter", "scatter_"})
"""Methods that torch gives a number first, and Paddle a tensor."""

_SEVERAL = frozenset({"expand", "flip", "reshape", "tile"})
"""Methods that torch gives numbers one by one too."""


def install() -> None:
    """Give Tensor the methods."""
    for name in (one.spelling.name for one in functions() if not one.spelling.home and one.is_method):
        if not hasattr(Tensor, name):
            setattr(Tensor, name, getattr(table, name))
    for name in _OTHERWISE:
        setattr(Tensor, name, _method(name, getattr(table, name), getattr(torch.Tensor, name)))


def _method(name: str, function: Callable[..., Any], base: Callable[..., Any]) -> Callable[..., Any]:
    takes_number, takes_several, is_where = name in _BY_DIMENSION, name in _SEVERAL, name == "where"

    @wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if MEANS_TORCH[_FRAME(1).f_code.co_filename]:
            return dressed(base(self, *args, **kwargs), Tensor)
        if args and ((takes_number and isinstance(args[0], int)) or (is_where and self.dtype is not torch.bool)):
            return as_paddle(base(self, *args, **kwargs))
        if takes_several and args and isinstance(args[0], int):
            args = (args,)
        if "dim" in kwargs:
            kwargs["axis"] = kwargs.pop("dim")
        return function(self, *args, **kwargs)

    return method
