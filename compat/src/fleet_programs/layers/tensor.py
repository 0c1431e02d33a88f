"""Layers that make variables: constants, copies, global variables, parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleet_programs.definition.dtypes import canonical
from fleet_programs.expressions import names
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.table import fill_constant
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Constant, Initializer
from fleet_programs.program.program import default_main_program, default_startup_program
from fleet_programs.program.variable import Parameter, Variable

__all__ = ["assign", "create_global_var", "create_parameter", "create_tensor", "eye", "ones", "zeros"]

MAX_ASSIGNED = 1024 * 1024
"""Elements of an array that `assign` puts into a program, which holds them as numbers."""


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
    """A variable without a value, for the output of a later operator."""
    block = default_main_program().current_block()
    name = name or names.generate("create_tensor", block.has_var)
    return block.create_var(name, dtype=dtype, persistable=persistable)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """A trainable variable; without an initialiser it is as that of a layer: Xavier's, or 0 for a bias."""
    layer = LayerBuilder("create_parameter")
    settings = ParamAttr.of(attr)
    if settings is None:
        raise layer.error("attr must not be False; a parameter that is not wanted need not be created")
    if name is not None and settings.name not in (None, name):
        raise layer.error(f"name is {name!r} and that of attr is {settings.name!r}; give one of them")
    if name is not None:
        settings = ParamAttr(
            name,
            settings.initializer,
            settings.learning_rate,
            settings.regularizer,
            settings.trainable,
            settings.need_clip,
        )
    made = layer.parameter(settings, list(shape), canonical(dtype), is_bias=is_bias, default=default_initializer)
    assert made is not None
    return made


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,  # noqa: ARG001 - changes no value
    name: str | None = None,
) -> Variable:
    """A variable of the whole program, filled by the startup program; `persistable` ones outlive a run.

    What is not persistable has no value after the startup program, so the main program fills it itself.
    """
    sizes, kind = [int(size) for size in shape], canonical(dtype)
    block = default_main_program().global_block()
    label = name or names.generate("global_var", block.has_var)
    var = block.create_var(label, sizes, kind, persistable=persistable, stop_gradient=True)
    if persistable:
        startup = default_startup_program().global_block()
        Constant(value)(startup.create_var(label, sizes, kind, persistable=True), startup)
    else:
        Constant(value)(var, block)
    return var


def zeros(shape: Sequence[int | Variable] | Variable, dtype: Any = "float32", force_cpu: bool = False) -> Variable:
    """0 everywhere."""
    return fill_constant(shape, dtype, 0.0, force_cpu)


def ones(shape: Sequence[int | Variable] | Variable, dtype: Any = "float32", force_cpu: bool = False) -> Variable:
    """1 everywhere."""
    return fill_constant(shape, dtype, 1.0, force_cpu)


def assign(input: Any, output: Variable | None = None) -> Variable:
    """A copy of a variable, or a variable of an array's values; as `output` if given.

    Numbers of Python become float32 or int64.
    """
    layer = LayerBuilder("assign")
    source = input if isinstance(input, Variable) else np.asarray(input)
    if isinstance(source, Variable):
        out = (
            layer.temporary(source.dtype)
            if output is None
            else _target(layer, output, source.shape, source.dtype, [source])
        )
        layer.op("assign", {"X": source}, {"Out": out})
        return out
    if source.size > MAX_ASSIGNED:
        raise layer.error(
            f"an array of {source.size} elements is too large for a program; feed it, or give a parameter "
            "initializer=fleet_programs.parameters.initializer.NumpyArray(...)"
        )
    if not isinstance(input, np.ndarray | np.generic) and source.dtype == np.float64:
        source = source.astype(np.float32)
    kind = canonical(source.dtype)
    shape = list(source.shape) or [1]
    out = layer.temporary(kind) if output is None else _target(layer, output, shape, kind)
    layer.op("assign_value", {}, {"Out": out}, {"shape": shape, "dtype": kind, "values": source.ravel().tolist()})
    return out


def _target(
    layer: LayerBuilder, output: Any, shape: Sequence[int], dtype: str, inputs: Sequence[Variable] = ()
) -> Variable:
    """A variable to write to; one that outlives the run keeps its shape and dtype."""
    out = layer.target(output, inputs)
    if out.persistable and (list(out.shape), out.dtype) != (list(shape), dtype):
        raise layer.error(
            f"output {out.name!r} is {out.dtype} of shape {list(out.shape)} and cannot take {dtype} of {list(shape)}"
        )
    return out


def eye(
    num_rows: int, num_columns: int | None = None, batch_shape: Sequence[int] | None = None, dtype: Any = "float32"
) -> Variable:
    """1 on the diagonal of a matrix, 0 elsewhere; repeated for `batch_shape`."""
    layer, kind = LayerBuilder("eye"), canonical(dtype)
    attrs = {"num_rows": num_rows, "num_columns": num_rows if num_columns is None else num_columns, "dtype": kind}
    out = layer.apply("eye", {}, attrs, kind)
    if batch_shape:
        new = list(range(len(batch_shape)))
        out = layer.apply("unsqueeze", {"X": out}, {"axes": new}, kind)
        out = layer.apply("expand", {"X": out}, {"expand_times": [*batch_shape, 1, 1]}, kind)
    out.stop_gradient = True
    return out
