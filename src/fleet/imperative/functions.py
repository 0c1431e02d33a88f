"""Functions of tensors, with Paddle's names, arguments and meanings where torch's differ."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.imperative.creation import dtype_of, sizes
from fleet.imperative.tensor import Tensor, own

Axis = int | Sequence[int] | None


def no_grad(func: Callable[..., Any] | None = None) -> Any:
    """Inside, or in the function it decorates, nothing is kept for backward."""
    return torch.no_grad() if func is None else torch.no_grad()(func)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Tensor | None]:
    """The gradients of `outputs` with respect to `inputs`, added to none of them."""
    if not only_inputs or no_grad_vars is not None:
        raise NotSupportedError("grad: only_inputs=False and no_grad_vars are not built; use backward() and detach()")
    several = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    given = grad_outputs if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(several)
    starts = [torch.ones_like(out) if one is None else one for out, one in zip(several, given, strict=True)]
    made = torch.autograd.grad(several, inputs, starts, retain_graph, create_graph, allow_unused=allow_unused)
    return list(own(made))


def is_grad_enabled() -> bool:
    """Whether something is kept for backward now."""
    return torch.is_grad_enabled()


def set_grad_enabled(mode: bool) -> AbstractContextManager[None]:
    """Whether something is kept for backward inside."""
    return torch.set_grad_enabled(mode)


def cast(x: torch.Tensor, dtype: Any) -> Tensor:
    """The values as another type."""
    return own(x.to(dtype_of(dtype)))


def concat(x: Sequence[torch.Tensor], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors one after the other along a dimension."""
    return own(torch.cat(list(x), int(axis)))


def stack(x: Sequence[torch.Tensor], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors side by side along a new dimension."""
    return own(torch.stack(list(x), axis))


def split(
    x: torch.Tensor, num_or_sections: int | Sequence[int], axis: int = 0, name: str | None = None
) -> list[Tensor]:
    """As many equal parts, or parts of these sizes, one of which may be -1 for the rest."""
    length = x.size(axis)
    if isinstance(num_or_sections, int):
        if num_or_sections < 1 or length % num_or_sections:
            raise UsageError(f"split: {num_or_sections} does not divide {length}, the size of dimension {axis}")
        parts: Any = length // num_or_sections
    else:
        parts = [int(one) for one in num_or_sections]
        known = builtins.sum(one for one in parts if one >= 0)
        parts = [length - known if one < 0 else one for one in parts]
    return [own(part) for part in _SPLIT(x, parts, axis)]


def reshape(x: torch.Tensor, shape: Any, name: str | None = None) -> Tensor:
    """The same values in another shape: -1 is what is left, 0 is the size that the dimension has."""
    wanted = [x.size(place) if size == 0 else size for place, size in enumerate(sizes(shape))]
    return own(torch.reshape(x, wanted))


def transpose(x: torch.Tensor, perm: Sequence[int], name: str | None = None) -> Tensor:
    """The dimensions in another order."""
    return own(torch.permute(x, tuple(perm)))


def flatten(x: torch.Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Tensor:
    """The dimensions from one to another as one."""
    return own(torch.flatten(x, start_axis, stop_axis))


def squeeze(x: torch.Tensor, axis: Axis = None, name: str | None = None) -> Tensor:
    """Without dimensions of size 1: all, or those given."""
    return own(torch.squeeze(x) if axis is None else torch.squeeze(x, _axes(axis)))


def unsqueeze(x: torch.Tensor, axis: int | Sequence[int], name: str | None = None) -> Tensor:
    """With new dimensions of size 1, put in one after the other."""
    for one in (axis,) if isinstance(axis, int) else axis:
        x = torch.unsqueeze(x, one)
    return own(x)


def gather(x: torch.Tensor, index: torch.Tensor, axis: int = 0, name: str | None = None) -> Tensor:
    """The entries along a dimension whose places `index` has."""
    return own(torch.index_select(x, int(axis), index.reshape(-1)))


def matmul(
    x: torch.Tensor,
    y: torch.Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of matrices, or of batches of them."""
    left = x.mT if transpose_x and x.dim() > 1 else x
    right = y.mT if transpose_y and y.dim() > 1 else y
    return own(torch.matmul(left, right))


def sum(
    x: torch.Tensor,
    axis: Axis = None,
    dtype: Any = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """The sum over some dimensions, or over all."""
    wanted = None if dtype is None else dtype_of(dtype)
    return own(torch.sum(x, _axes(axis), keepdim, dtype=wanted))


def mean(x: torch.Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The mean over some dimensions, or over all."""
    return own(torch.mean(x, _axes(axis), keepdim))


def max(x: torch.Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The greatest value over some dimensions, or over all."""
    return own(torch.amax(x, () if axis is None else _axes(axis), keepdim))


def min(x: torch.Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The least value over some dimensions, or over all."""
    return own(torch.amin(x, () if axis is None else _axes(axis), keepdim))


def argmax(x: torch.Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64") -> Tensor:
    """The place of the greatest value."""
    return cast(torch.argmax(x, axis, keepdim), dtype)


def argmin(x: torch.Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64") -> Tensor:
    """The place of the least value."""
    return cast(torch.argmin(x, axis, keepdim), dtype)


def equal(x: torch.Tensor, y: Any, name: str | None = None) -> Tensor:
    """Where both are equal, element by element."""
    return own(torch.eq(x, y))


def equal_all(x: torch.Tensor, y: torch.Tensor, name: str | None = None) -> Tensor:
    """Whether both are equal, everywhere."""
    return own(torch.tensor(torch.equal(x, y), device=x.device))


def scale(
    x: torch.Tensor,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """scale * x + bias, or scale * (x + bias)."""
    if act is not None:
        raise NotSupportedError(f"scale: act must be left out, got {act!r}; apply nn.functional.{act} to the result")
    made: torch.Tensor = x * scale + bias if bias_after_scale else (x + bias) * scale
    return own(made)


def numel(x: torch.Tensor, name: str | None = None) -> Tensor:
    """The number of elements."""
    return own(torch.tensor(x.numel()))


def _axes(axis: Axis) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(axis)


def _split(self: torch.Tensor, *args: Any, **kwargs: Any) -> list[Tensor]:
    """`split` as a method. `torch.split` calls it too, and means sizes where scripts mean a number of parts."""
    if len(args) == 2 and isinstance(args[0], int) and args[0] ** 2 != self.size(args[1]):
        raise UsageError(
            f"split({args[0]}, {args[1]}) of a tensor means parts of that size to torch and that many parts to Paddle; "
            "call split(number, axis=...), or chunk()"
        )
    return split(self, *args, **kwargs)


_SPLIT: Any = torch.Tensor.split

# As methods too, where torch's of that name mean something else, or take other arguments.
for _method in (flatten, squeeze, unsqueeze, matmul, max, min, equal, scale):
    setattr(Tensor, _method.__name__, _method)
Tensor.split = _split  # type: ignore[method-assign]
