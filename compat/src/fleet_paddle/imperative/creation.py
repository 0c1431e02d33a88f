"""Tensors of numbers, whatever the mode: what the functions of `rows.tensors.making` are where no program is meant.

A `dtype` is a name such as 'float32', or torch's or numpy's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.state import chosen
from fleet_paddle.imperative.state import dtype_of as dtype_of
from fleet_paddle.imperative.tensor import Parameter, Tensor, as_paddle
from fleet_paddle.variables import has_variable
from fleet_programs import layers
from fleet_programs.definition.dtypes import FLOATS, canonical
from fleet_programs.executor.place import device_of
from fleet_programs.layers.building.helper import LayerBuilder

__all__ = ["create_parameter", "get_default_dtype", "meshgrid", "seed", "set_default_dtype", "tolist"]

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
    made = (made if made.dim() else made.reshape(1)).as_subclass(Tensor)
    made.stop_gradient = stop_gradient
    return made


def sizes(shape: Any) -> tuple[int, ...]:
    """A shape given as a number, a list, or a tensor of ints."""
    return (int(shape),) if isinstance(shape, int) else tuple(int(one) for one in shape)


def number(given: Any) -> Any:
    """Python's number of a tensor of one; anything else as it is."""
    return given.item() if isinstance(given, torch.Tensor) else given


def full(shape: Size, fill_value: Any, dtype: Any = None) -> Tensor:
    """One value everywhere; it may be given as text, "0.5"."""
    fill_value = float(fill_value) if isinstance(fill_value, str) else fill_value
    return as_paddle(torch.full(sizes(shape), number(fill_value), dtype=dtype_of(dtype), device=current()))


def empty(shape: Size, dtype: Any = None) -> Tensor:
    """Memory with whatever was there."""
    return as_paddle(torch.empty(sizes(shape), dtype=dtype_of(dtype), device=current()))


def arange(start: Any, end: Any, step: Any, dtype: Any = None) -> Tensor:
    """From `start`, or 0, up to but not including `end`."""
    if end is None:
        start, end = 0, start
    are_whole = all(_is_whole(one) for one in (start, end, step))
    start, end, step = (number(one) for one in (start, end, step))
    return as_paddle(
        torch.arange(start, end, step, dtype=dtype_of(dtype, "int64" if are_whole else None), device=current())
    )


def _is_whole(number: Any) -> bool:
    """Whether it is of a whole type: `paddle.shape` gives tensors of them."""
    if isinstance(number, torch.Tensor):
        return not (number.is_floating_point() or number.is_complex())
    return isinstance(number, int | np.integer)


def linspace(start: float, stop: float, num: int, dtype: Any = None) -> Tensor:
    """`num` numbers from `start` to `stop`, both included."""
    return as_paddle(torch.linspace(number(start), number(stop), int(num), dtype=dtype_of(dtype), device=current()))


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None) -> Tensor:
    """Ones on the diagonal."""
    columns = num_rows if num_columns is None else num_columns
    return as_paddle(torch.eye(num_rows, columns, dtype=dtype_of(dtype), device=current()))


def uniform(shape: Size, dtype: Any, min: float, max: float, seed: int = 0) -> Tensor:
    """Numbers spread evenly over [min, max); with a `seed` the same each time."""
    generator = torch.Generator(current()).manual_seed(seed) if seed else None
    return as_paddle(empty(shape, dtype).uniform_(min, max, generator=generator))


def seed(value: int) -> torch.Generator:
    """Where random numbers begin, of tensors and of layers made later."""
    return torch.manual_seed(value)


def meshgrid(*args: Any, name: str | None = None) -> list[Any]:
    """Of several vectors, given one by one or in a list, the tensors of their values at every combination of places."""
    several = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    if has_variable(several):
        layer = LayerBuilder("meshgrid", name)
        made = [layer.temporary(layer.variable(one, "args").dtype) for one in several]
        layer.op("meshgrid", {"X": list(several)}, {"Out": made})
        return made
    return [as_paddle(one) for one in torch.meshgrid(*several, indexing="ij")]


def tolist(x: torch.Tensor) -> Any:
    """The values as lists of Python's numbers."""
    return x.tolist()


def create_parameter(
    shape: Size,
    dtype: Any = None,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A tensor to train, or after `enable_static()` a variable; first values are as `attr` or the initialiser says."""
    if chosen.programs:
        settings = dtype or "float32", name, attr, is_bias, default_initializer
        return cast("Parameter", layers.create_parameter(sizes(shape), *settings))
    from fleet_paddle.imperative.nn.base.parameter import make

    made = make(sizes(shape), attr if attr is not None else name, dtype, is_bias, default_initializer)
    if made is None:
        raise UsageTypeError("create_parameter: attr must not be False; a parameter is what it makes")
    return made
