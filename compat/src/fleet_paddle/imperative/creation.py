"""Functions that make tensors. A `dtype` is a name such as 'float32', or torch's or numpy's own."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.static.dtypes import FLOATS, canonical
from fleet.static.executor.place import device_of
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.state import chosen
from fleet_paddle.imperative.state import dtype_of as dtype_of
from fleet_paddle.imperative.tensor import Parameter, Tensor, own

__all__ = [
    "arange",
    "assign",
    "clone",
    "create_parameter",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "get_default_dtype",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "set_default_dtype",
    "to_tensor",
    "zeros",
    "zeros_like",
]

Size = int | Sequence[int]


def set_default_dtype(d: Any) -> None:
    """The type of new floats: 'float32' at first."""
    name = canonical(d)
    if name not in FLOATS:
        raise UsageError(f"set_default_dtype: d must be a type of floats, such as 'float32', got {d!r}")
    chosen.dtype = name


def get_default_dtype() -> str:
    """The type of new floats."""
    return chosen.dtype


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A tensor of numbers, lists or an array; Python's floats have the default type. The values are copied.

    Gradients flow to it only with `stop_gradient=False`.
    """
    device = current() if place is None else device_of(place)
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(data, torch.Tensor):
        made = data.detach().to(device, wanted, copy=True)
    else:
        try:
            array = np.asarray(data)
        except ValueError:
            raise UsageTypeError("to_tensor: rows must be of one length, got a ragged list") from None
        if array.dtype.kind not in "biufc":
            raise UsageTypeError(f"to_tensor: data must be numbers, got {type(data).__name__} of {array.dtype}")
        if wanted is None and array.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic):
            wanted = dtype_of(None)
        made = torch.as_tensor(array, dtype=wanted).to(device)
        if isinstance(data, np.ndarray) and made.device.type == "cpu":
            made = made.clone()
    made = made.as_subclass(Tensor)
    made.stop_gradient = stop_gradient
    return made


def sizes(shape: Any) -> tuple[int, ...]:
    """A shape given as a number, a list, or a tensor of ints."""
    return (int(shape),) if isinstance(shape, int) else tuple(int(one) for one in shape)


def zeros(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros."""
    return full(shape, 0, dtype, name)


def ones(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones."""
    return full(shape, 1, dtype, name)


def full(shape: Size, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """One value everywhere."""
    made = torch.full(sizes(shape), fill_value, dtype=dtype_of(dtype), device=current())
    return own(made)


def empty(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Memory with whatever was there."""
    return own(torch.empty(sizes(shape), dtype=dtype_of(dtype), device=current()))


def empty_like(x: torch.Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Memory with whatever was there, in the shape and, unless given, the type of `x`."""
    return own(torch.empty_like(x.detach(), dtype=None if dtype is None else dtype_of(dtype)))


def full_like(x: torch.Tensor, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """One value everywhere, in the shape and, unless given, the type of `x`."""
    made = torch.full_like(x.detach(), fill_value, dtype=None if dtype is None else dtype_of(dtype))
    return own(made)


def zeros_like(x: torch.Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros in the shape of `x`."""
    return full_like(x, 0, dtype, name)


def ones_like(x: torch.Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones in the shape of `x`."""
    return full_like(x, 1, dtype, name)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    """From `start`, or 0, up to but not including `end`."""
    if end is None:
        start, end = 0, start
    are_whole = all(isinstance(one, int) for one in (start, end, step))
    wanted = dtype_of(dtype, "int64" if are_whole else None)
    return own(torch.arange(start, end, step, dtype=wanted, device=current()))


def linspace(start: float, stop: float, num: int, dtype: Any = None, name: str | None = None) -> Tensor:
    """`num` numbers from `start` to `stop`, both included."""
    made = torch.linspace(start, stop, num, dtype=dtype_of(dtype), device=current())
    return own(made)


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones on the diagonal."""
    columns = num_rows if num_columns is None else num_columns
    return own(torch.eye(num_rows, columns, dtype=dtype_of(dtype), device=current()))


def meshgrid(*args: Any, name: str | None = None) -> list[Tensor]:
    """Of several vectors, given one by one or in a list, the tensors of their values at every combination of places."""
    several = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    return [own(one) for one in torch.meshgrid(*several, indexing="ij")]


def clone(x: torch.Tensor, name: str | None = None) -> Tensor:
    """A copy, through which gradients flow."""
    return own(x.clone())


def assign(input: Any, output: Tensor | None = None) -> Tensor:
    """A copy of a tensor, through which gradients flow, or of an array; put into `output`, if there is one."""
    made = own(input.clone()) if isinstance(input, torch.Tensor) else to_tensor(np.asarray(input))
    if output is None:
        return made
    if isinstance(input, torch.Tensor) and input.requires_grad:
        output.copy_(made)
    else:
        output.set_value(made)
    return output


def create_parameter(
    shape: Size,
    dtype: Any = None,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A tensor to train, with first values as `attr` or the initialiser says."""
    from fleet_paddle.imperative.nn.parameter import make

    made = make(sizes(shape), attr if attr is not None else name, dtype, is_bias, default_initializer)
    if made is None:
        raise UsageTypeError("create_parameter: attr must not be False; a parameter is what it makes")
    return made
