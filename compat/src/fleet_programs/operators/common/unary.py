"""How functions of one variable, element by element, are defined: a line each, in `activation` and `pointwise`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

Function = Callable[..., torch.Tensor]


def infer_unary(infer: Infer) -> None:
    """The shape rule of operators that turn fractions into fractions of the same shape."""
    infer.require_dtype("X", FLOATS)
    infer.like("Out", "X")


def unary(
    type: str,
    function: Function,
    needs: str = "X",
    gradient: Function | None = None,
    attrs: Mapping[str, Any] | None = None,
    *,
    doc: str,
    v1: str | None = None,
    v2: str | None = None,
    layer: str = "",
    on_tensors: Function | None = None,
    also: Calls | None = None,
    home: str = "",
) -> None:
    """Define an op: `function(x, *attrs)` and `gradient(x or out, out's gradient, *attrs)`; without one by autograd.

    Its layer takes `x`, the attributes and a name, unless `v1` says otherwise; 2.0's function takes the same, unless
    `v2` does, and computes `function` of tensors, unless that is `on_tensors`. `also` is another way to call it,
    and `home` where 2.0 has the function.
    """
    names = tuple(attrs or {})
    settings = "".join(f", {name}={value!r}" for name, value in (attrs or {}).items())
    usual = f"{type}(x{settings}, name)"
    first, second = usual if v1 is None else v1, home + usual if v2 is None else v2
    calls = [Calls(doc, first, second, on_tensors or function, layer), *([also] if also else [])]

    @register(
        type, inputs=("X",), attrs=attrs, infer=infer_unary, grad=Grad(needs=(needs,) if needs else ()), calls=calls
    )
    def _(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
        return _bound(function, op, names, 1)

    if gradient is not None:

        @register_grad(type)
        def _(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
            return _bound(gradient, op, names, 2 if needs else 1)


def _bound(function: Function, op: Operator, names: tuple[str, ...], num_tensors: int) -> Kernel:
    if not names:
        return function
    values = [op.attr(name) for name in names]
    if num_tensors == 1:
        return lambda x: function(x, *values)
    return lambda x, grad: function(x, grad, *values)
