"""`py_func`: a function of Python in the middle of a program, and another one for its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.kernel.lowering import Lowering

_functions: list[Callable[..., Any]] = []


def number_of(function: Callable[..., Any]) -> int:
    """The number under which this process knows a function: programs are data, and functions are not."""
    if function not in _functions:
        _functions.append(function)
    return _functions.index(function)


def _function(op: Operator, attr: str) -> Callable[..., Any]:
    number = int(op.attr(attr))
    if not 0 <= number < len(_functions):
        raise UsageError(
            "py_func: this process does not know the function: a program that was read from a file cannot bring it; "
            "build the program here"
        )
    return _functions[number]


def _infer(infer: Infer) -> None:
    """Outputs are what the script has declared them to be."""


def _made(values: Any, names: list[str], lowering: Lowering, what: str) -> Any:
    """What a function returned, as tensors of what the variables are declared to be."""
    several = list(values) if isinstance(values, list | tuple) else [] if values is None and not names else [values]
    if len(several) != len(names):
        raise UsageError(f"py_func: {what} must return {len(names)} values, got {len(several)}")
    found = [
        None
        if value is None
        else torch.as_tensor(np.ascontiguousarray(np.asarray(value))).to(
            lowering.device, torch_dtype(lowering.dtype(name))
        )
        for value, name in zip(several, names, strict=True)
    ]
    return found[0] if len(found) == 1 else tuple(found) if found else None


@register(
    "py_func",
    inputs=("X*",),
    outputs=("Out*",),
    attrs={"forward_callable_id": -1, "backward_callable_id": -1, "backward_skip_vars": [""]},
    infer=_infer,
    grad=Grad(needs=("X", "Out"), wrt=("X",)),
    has_effect=True,
)
def _py_func(op: Operator, lowering: Lowering) -> Kernel:
    function, outs = _function(op, "forward_callable_id"), op.output("Out")

    def call(*tensors: torch.Tensor) -> Any:
        return _made(function(*[LoDTensor(one.detach().cpu()) for one in tensors]), outs, lowering, "func")

    return call


@register_grad("py_func")
def _py_func_grad(op: Operator, lowering: Lowering) -> Kernel:
    wanted = op.output("X@GRAD")
    if op.attr("backward_callable_id") < 0:
        raise UsageError(
            "py_func: its gradient is needed, and it was given none; give backward_func=, or stop_gradient"
        )
    function = _function(op, "backward_callable_id")
    skipped = set(op.attr("backward_skip_vars"))
    read = [*op.input("X"), *op.input("Out")]
    num_x = len(op.input("X"))

    def call(*tensors: torch.Tensor) -> Any:
        given = [one for name, one in zip(read, tensors, strict=False) if name not in skipped]
        grads = function(*[LoDTensor(one.detach().cpu()) for one in (*given, *tensors[len(read) :])])
        made = _made(grads, wanted, lowering, "backward_func")
        several = [made] if len(wanted) == 1 else list(made)
        filled = [
            torch.zeros_like(x) if g is None else g.reshape(x.shape)
            for g, x in zip(several, tensors[:num_x], strict=True)
        ]
        return filled[0] if len(filled) == 1 else tuple(filled)

    return call
