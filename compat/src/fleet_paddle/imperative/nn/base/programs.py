"""Layers of programs: what a `Layer` that was made after `enable_static()` has instead of tensors.

Its parameters are those of the default programs from the moment that it is made: the main program knows name and shape,
the startup program the initialiser, and no memory is taken before that one runs. Names and layouts are those that the
same layer has for tensors. Called with variables, `forward` adds operators: the functions in it look at their operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.imperative.state import chosen
from fleet_programs.definition.dtypes import canonical
from fleet_programs.executor.scope import global_scope
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Constant, Initializer, NumpyArray
from fleet_programs.program.variable import Parameter as Parameter
from fleet_programs.program.variable import Variable


def are_meant() -> bool:
    """Whether layers that are made now are for programs."""
    return chosen.programs is True


def make(
    layer: str, shape: Sequence[int], attr: Any, dtype: Any, is_bias: bool, default: Initializer | None
) -> Parameter | None:
    """A parameter of the default programs, named after its layer unless `attr` names it; None for False."""
    kind = canonical(dtype if dtype is not None else chosen.dtype)
    return LayerBuilder(layer, layer).parameter(attr, list(shape), kind, is_bias=is_bias, default=default)


def put(layer: nn.Module, name: str, parameter: Parameter) -> None:
    """Let `layer.name` be this parameter; torch's modules would take it for any other object."""
    if "_parameters" not in layer.__dict__:
        raise UsageTypeError(
            f"{type(layer).__name__}: call super().__init__() before parameters are put into the layer"
        )
    for others in (layer.__dict__, layer._buffers, layer._modules):
        others.pop(name, None)
    layer._parameters[name] = parameter  # type: ignore[assignment]


def put_buffer(layer: nn.Module, full_name: str, name: str, value: Any) -> None:
    """Let `layer.name` be a variable that lasts and is not trained, and begins as the given tensor.

    A variable stays what it is: what an operator of the program makes at each run.
    """
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu().numpy()
        uniform = array.size > 0 and bool((array == array.flat[0]).all())
        first = Constant(float(array.flat[0])) if uniform else NumpyArray(array)
        value = make(full_name, array.shape, ParamAttr(trainable=False), str(array.dtype), False, first)
    layer.__dict__.pop(name, None)
    layer._buffers[name] = value


def held(layer: nn.Module) -> dict[str, Any]:
    """The parameters and buffers of a layer, without those of the layers inside it."""
    both: dict[str, Any] = {**layer._parameters, **layer._buffers}
    return {name: one for name, one in both.items() if one is not None}


def are_in(layer: nn.Module, deep: bool = False) -> bool:
    """Whether a layer has variables of a program, itself or, if `deep`, in the layers inside it."""
    several = layer.modules() if deep else [layer]
    return any(isinstance(one, Variable) for inner in several for one in held(inner).values())


def load(variables: Mapping[str, Variable], values: Mapping[str, torch.Tensor]) -> None:
    """Give variables other values, in the scope that programs run in, after the startup program."""
    scope = global_scope()
    for place, value in values.items():
        now = scope.var(variables[place].name).get_tensor()
        now.set(value.to(now.tensor.dtype))


def check_operands(layer: nn.Module, operands: Sequence[Any]) -> None:
    """UsageError if a layer was called with tensors and is of programs, or the other way round."""
    given = [inner for one in operands for inner in (one if isinstance(one, list | tuple) else [one])]
    held = list(layer.parameters())
    tensors = [one for one in given if isinstance(one, torch.Tensor)]
    variables = [one for one in given if isinstance(one, Variable)]
    name = type(layer).__name__
    if tensors and any(isinstance(one, Variable) for one in held):
        raise UsageError(
            f"{name} was made for programs, after enable_static(), and is called with a tensor; call it with "
            "variables, or make it after disable_static()"
        ) from None
    if variables and any(isinstance(one, torch.Tensor) for one in held):
        raise UsageError(
            f"{name} was made for tensors and is called with {variables[0].name!r}, a variable of a program; call "
            "enable_static() before the layer is made"
        ) from None
