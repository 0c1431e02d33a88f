"""What definitions of operators have in common: kernels from functions, views, axes, shapes that only a batch knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.kinds import Shape
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Flags, Grad, Infer, Kernel, MakeKernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering


def always(kernel: Kernel) -> MakeKernel:
    """The same kernel whatever the attributes are."""
    return lambda op, lowering: kernel  # noqa: ARG005


def bound(function: Kernel, *names: str) -> MakeKernel:
    """Kernels of a function that takes the tensors, and these attributes by their names."""
    return lambda op, lowering: partial(function, **{name: op.attr(name) for name in names})  # noqa: ARG005


def computes(
    type: str,
    infer: Callable[[Infer], None],
    v1: str = "",
    v2: str = "",
    attrs: Mapping[str, Any] | None = None,
    *,
    inputs: tuple[str, ...] = ("X",),
    outputs: tuple[str, ...] = ("Out",),
    grad: Grad | None = None,
    around: Callable[[Kernel, Operator, Lowering], Kernel] | None = None,
    make: MakeKernel | None = None,
    takes_rows: bool = False,
    **how: Any,
) -> Callable[[Kernel], Kernel]:
    """Define an op by the decorated function, which takes tensors and attributes; its docstring is that of the layers.

    It is 2.0's function of tensors, too. `around`, such as `view`, makes the kernel of it and of the attributes; an op
    whose kernel needs more than those has its own `make`. `how` is what else `Calls` takes.
    """

    def define(function: Kernel) -> Kernel:
        calls = Calls(function.__doc__ or "", v1, v2, function if v2 else None, **how)
        own = make or bound(function, *(attrs or {}))
        kernels = own if around is None else lambda op, lowering: around(own(op, lowering), op, lowering)
        flags: Flags = {"takes_rows": takes_rows}
        register(type, inputs=inputs, outputs=outputs, attrs=attrs, infer=infer, grad=grad, calls=calls, **flags)(
            kernels
        )
        return function

    return define


def view(kernel: Kernel, op: Operator, lowering: Lowering) -> Kernel:
    """A kernel whose result may share memory with its first input.

    Persistable variables are changed in place by later operators, so what is made of them is copied.
    """
    if not lowering.var(op.input_names[0]).persistable:
        return kernel
    return lambda *tensors: kernel(*tensors).clone()


def product(sizes: Sequence[int]) -> int:
    """The number of elements; -1 if a size is not known."""
    return -1 if any(size < 0 for size in sizes) else prod(sizes)


def integers(given: Any) -> tuple[int, ...]:
    """One whole number or several, such as sizes or dimensions, whatever they are given as; TypeError for others."""
    several = isinstance(given, Iterable) and getattr(given, "ndim", 1) != 0
    return tuple(whole(one) for one in given) if several else (whole(given),)


def whole(given: Any) -> int:
    """A number, a tensor or an array of one; TypeError if it is a fraction or no number."""
    number = int(given)
    if number != given:
        raise TypeError(f"a whole number is needed, got {given!r}")
    return number


def axis_of(infer: Infer, axis: int, rank: int, what: str = "axis") -> int:
    """An axis counted from 0; an error unless there is such a one."""
    if not -rank <= axis < rank:
        raise infer.fail(f"{what} must be between {-rank} and {rank - 1} for {rank} dimensions, got {axis}")
    return axis % rank


def positive(infer: Infer, name: str) -> None:
    """Fail unless an attribute is above 0."""
    if not infer.attr(name) > 0:
        raise infer.fail(f"{name} must be > 0, got {infer.attr(name)}")


def same_dtype(infer: Infer, first: str, second: str) -> None:
    """Fail unless two slots have variables of one dtype."""
    x, y = infer.var(first), infer.var(second)
    if x.dtype != y.dtype:
        raise infer.fail(f"{first} {x.name!r} is {x.dtype} and {second} {y.name!r} is {y.dtype}; cast one of them")


def same_shape(infer: Infer, first: str, second: str) -> None:
    """Fail if two slots have variables of shapes that cannot be equal."""
    x, y = infer.var(first), infer.var(second)
    if not may_equal(x.shape, y.shape):
        raise infer.fail(
            f"{first} {x.name!r} has shape {list(x.shape)} and {second} {y.name!r} has {list(y.shape)}; make them equal"
        )


def compared(kernel: Kernel, op: Operator, lowering: Lowering, *slots: str, num_dims: int | None = None) -> Kernel:
    """A kernel that refuses batches whose variables are not of one shape, in all or in the first `num_dims` dimensions.

    torch would repeat a batch of one row. Nothing is looked at where all shapes are known when the program is compiled.
    `slots` are all inputs if there are none.
    """
    names = [name for slot in (slots or op.inputs) for name in op.input(slot)]
    first_at: dict[str, int] = {}
    for place, name in enumerate(op.input_names):  # a sum may have thousands
        first_at.setdefault(name, place)
    places = [first_at[name] for name in names]
    sizes = [size for name in names for size in lowering.shape(name)[:num_dims]]
    if len(places) < 2 or -1 not in sizes:
        return kernel
    first, *others = places

    def agreeing(*tensors: torch.Tensor) -> Any:
        wanted = tensors[first].shape[:num_dims]
        for place in others:
            if tensors[place].shape[:num_dims] != wanted:
                raise _mismatch(op, first, place, tensors[first].shape, tensors[place].shape)
        return kernel(*tensors)

    return agreeing


def _mismatch(op: Operator, first: int, second: int, one: torch.Size, other: torch.Size) -> UsageError:
    x, y = op.input_names[first], op.input_names[second]
    return UsageError(
        f"{site_of(op)}{op.type}: {x!r} has shape {list(one)} and {y!r} has {list(other)} in this batch; feed as many "
        "rows of both"
    )


def shape_tensor(x: torch.Tensor) -> torch.Tensor:
    """A shape as an XShape output: in host memory, so that reading it never waits for a GPU."""
    return torch.tensor(x.shape, dtype=torch.int64)


def backward_shape(op: Operator, lowering: Lowering, slot: str = "X") -> Shape:
    """The shape of the variable whose gradient `op` computes, with at most one size left to find.

    Layers add an XShape output where there are more, and kernels then never ask for this.
    """
    shape = lowering.shape(op.output(f"{slot}@GRAD")[0])
    if list(shape).count(-1) > 1:
        raise NotSupportedError(
            f"{op.type}: shape {list(shape)} has more than one unknown size, so its gradient needs the XShape output; "
            "build the operator with its layer"
        )
    return shape
