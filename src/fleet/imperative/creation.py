"""Functions that make tensors. A `dtype` is a name such as 'float32', or torch's or numpy's own."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageTypeError
from fleet.imperative.place import current
from fleet.imperative.tensor import Parameter, Tensor, own
from fleet.static.dtypes import canonical, torch_dtype
from fleet.static.executor.place import device_of

Size = int | Sequence[int]

_default = ["float32"]


def set_default_dtype(d: Any) -> None:
    """The type of new floats: 'float32' at first."""
    _default[0] = canonical(d)


def get_default_dtype() -> str:
    """The type of new floats."""
    return _default[0]


def dtype_of(given: Any, default: str | None = None) -> torch.dtype:
    """torch's dtype of what a user gave, or of the default, or of new floats."""
    return torch_dtype(canonical(given) if given is not None else default or _default[0])


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A tensor of numbers, lists or an array; Python's floats have the default type. Tensors are not copied.

    Gradients flow to it only with `stop_gradient=False`.
    """
    device = current() if place is None else device_of(place)
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(data, torch.Tensor):
        made = data.detach().to(device, wanted)
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


def seed(value: int) -> torch.Generator:
    """Where random numbers begin, of tensors and of layers made later."""
    return torch.manual_seed(value)


def randn(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normally distributed numbers of mean 0 and deviation 1."""
    return own(torch.randn(sizes(shape), dtype=dtype_of(dtype), device=current()))


standard_normal = randn


def normal(mean: float = 0.0, std: float = 1.0, shape: Size = (1,), name: str | None = None) -> Tensor:
    """Normally distributed numbers."""
    return own(randn(shape, None, name).mul_(std).add_(mean))


def rand(shape: Size, dtype: Any = None, name: str | None = None) -> Tensor:
    """Numbers spread evenly over [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0, name=name)


def uniform(
    shape: Size,
    dtype: Any = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Tensor:
    """Numbers spread evenly over [min, max); with a `seed` the same each time."""
    generator = torch.Generator(current()).manual_seed(seed) if seed else None
    made = torch.empty(sizes(shape), dtype=dtype_of(dtype), device=current())
    return own(made.uniform_(min, max, generator=generator))


def randint(
    low: int = 0,
    high: int | None = None,
    shape: Size = (1,),
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Whole numbers from `low` up to but not including `high`; with one bound, from 0 up to it."""
    least, most = (0, low) if high is None else (low, high)
    made = torch.randint(least, most, sizes(shape), dtype=dtype_of(dtype, "int64"), device=current())
    return own(made)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """The numbers from 0 to n - 1, mixed."""
    return own(torch.randperm(n, dtype=dtype_of(dtype), device=current()))


def create_parameter(
    shape: Size,
    dtype: Any = "float32",
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A tensor to train, with first values as `attr` or the initialiser says."""
    from fleet.imperative.nn.parameter import make

    made = make(sizes(shape), attr if attr is not None else name, dtype, is_bias, default_initializer)
    if made is None:
        raise UsageTypeError("create_parameter: attr must not be False; a parameter is what it makes")
    return made
