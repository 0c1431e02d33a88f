"""Operators that make values of nothing, or of a shape alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, product


def _infer_assign_value(infer: Infer) -> None:
    shape, count = infer.attr("shape"), len(infer.attr("values"))
    if product(shape) != count:
        raise infer.fail(f"shape {list(shape)} needs {product(shape)} values, got {count}")
    infer.set("Out", shape, infer.attr("dtype"))


@register("assign_value", attrs={"shape": [1], "dtype": "float32", "values": [0.0]}, infer=_infer_assign_value)
def _assign_value(op: Operator, lowering: Lowering) -> Kernel:
    dtype = torch_dtype(op.attr("dtype"))
    value = torch.tensor(op.attr("values"), dtype=dtype).view(op.attr("shape")).to(lowering.device)
    return value.clone


def infer_batch_size_like(infer: Infer) -> None:
    """The attribute `shape`, but along one dimension the size of Input's batch."""
    source, shape = infer.var("Input"), list(infer.attr("shape"))
    from_dim = axis_of(infer, infer.attr("input_dim_idx"), len(source.shape), "input_dim_idx")
    to_dim = axis_of(infer, infer.attr("output_dim_idx"), len(shape), "output_dim_idx")
    shape[to_dim] = source.shape[from_dim]
    if any(size < 0 for i, size in enumerate(shape) if i != to_dim):
        raise infer.fail(f"shape must be known but for dimension {to_dim}, got {infer.attr('shape')}")
    infer.set("Out", shape, infer.attr("dtype"))


@register(
    "fill_constant_batch_size_like",
    inputs=("Input",),
    attrs={"shape": [1], "dtype": "float32", "value": 0.0, "input_dim_idx": 0, "output_dim_idx": 0},
    infer=infer_batch_size_like,
    calls=Calls(
        "A constant of this shape, but of the size of a dimension of `input` (its batch) along one dimension.",
        "fill_constant_batch_size_like(input, shape, dtype, value, input_dim_idx=0, output_dim_idx=0, force_cpu=False)",
    ),
)
def _fill_constant_batch_size_like(op: Operator, lowering: Lowering) -> Kernel:
    shape, value, dtype = list(op.attr("shape")), op.attr("value"), torch_dtype(op.attr("dtype"))
    from_dim, to_dim = op.attr("input_dim_idx"), op.attr("output_dim_idx")

    def fill(source: torch.Tensor) -> torch.Tensor:
        sizes = shape.copy()
        sizes[to_dim] = source.shape[from_dim]
        return torch.full(sizes, value, dtype=dtype, device=lowering.device)

    return fill


def _infer_like(infer: Infer) -> None:
    x = infer.var("X")
    infer.set("Out", x.shape, infer.attr("dtype") or x.dtype, lod=x.lod)


def _filled_like(x: torch.Tensor, fill_value: Any, dtype: Any) -> torch.Tensor:
    return torch.full_like(x.detach(), fill_value, dtype=None if dtype is None else torch_dtype(canonical(dtype)))


@register(
    "fill_any_like",
    inputs=("X",),
    attrs={"value": 0.0, "dtype": ""},
    infer=_infer_like,
    calls=[
        Calls(
            "1 everywhere, shaped as `x`.",
            "ones_like(x, out=None)",
            to_attrs=lambda given: {"value": 1.0, **given},
            kind="ones_like",
        ),
        Calls(
            "One value everywhere, in the shape and, unless given, the type of `x`.",
            v2="full_like(x, fill_value->value, dtype=None, name)",
            kind="full_like",
            torch=_filled_like,
        ),
        Calls(
            "Ones in the shape of `x`.",
            v2="ones_like(x, dtype=None, name)",
            kind="full_like",
            torch=lambda x, dtype: _filled_like(x, 1, dtype),
            to_attrs=lambda given: {"value": 1.0, **given},
        ),
        Calls(
            "Zeros in the shape of `x`.",
            v2="zeros_like(x, dtype=None, name)",
            kind="full_like",
            torch=lambda x, dtype: _filled_like(x, 0, dtype),
        ),
    ],
)
def _fill_any_like(op: Operator, lowering: Lowering) -> Kernel:
    value, dtype = op.attr("value"), torch_dtype(op.attr("dtype") or lowering.dtype(op.input("X")[0]))
    return lambda x: torch.full_like(x, value, dtype=dtype)


def _infer_shape(infer: Infer) -> None:
    infer.set("Out", [len(infer.shape("Input"))], "int32")


@register(
    "shape",
    inputs=("Input",),
    infer=_infer_shape,
    calls=Calls(
        "The sizes, int32; those of a variable in this batch.",
        "shape(input)",
        "shape(input)",
        lambda input: torch.tensor(list(input.shape), dtype=torch.int32),
    ),
)
def _shape(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x: torch.tensor(x.shape, dtype=torch.int32, device=lowering.device)


def _infer_range(infer: Infer) -> None:
    start, end, step = (infer.attr(name) for name in ("start", "end", "step"))
    if step == 0 or (end - start) / step < 0:
        raise infer.fail(f"a step of {step} does not lead from {start} to {end}")
    infer.set("Out", [len(np.arange(start, end, step))], infer.attr("dtype"))


def _as_given(given: dict[str, Any]) -> dict[str, Any]:
    """Attributes that keep the type of their numbers: whole ones may be larger than floats can tell apart."""
    return given


@register(
    "range",
    attrs={"start": 0.0, "end": 1.0, "step": 1.0, "dtype": "int64"},
    infer=_infer_range,
    calls=Calls(
        "start, start + step, ... up to but without `end`.", "range(start, end, step, dtype)", to_attrs=_as_given
    ),
)
def _range(op: Operator, lowering: Lowering) -> Kernel:
    bounds, dtype = [op.attr(name) for name in ("start", "end", "step")], torch_dtype(op.attr("dtype"))
    return lambda: torch.arange(*bounds, dtype=dtype, device=lowering.device)


def _infer_linspace(infer: Infer) -> None:
    if infer.attr("num") < 1:
        raise infer.fail(f"num must be at least 1, got {infer.attr('num')}")
    infer.set("Out", [infer.attr("num")], infer.attr("dtype"))


@register(
    "linspace",
    attrs={"start": 0.0, "stop": 1.0, "num": 1, "dtype": "float32"},
    infer=_infer_linspace,
    calls=Calls("`num` values at equal distances from `start` to `stop`.", "linspace(start, stop, num, dtype)"),
)
def _linspace(op: Operator, lowering: Lowering) -> Kernel:
    bounds, dtype = [op.attr(name) for name in ("start", "stop", "num")], torch_dtype(op.attr("dtype"))
    return lambda: torch.linspace(*bounds, dtype=dtype, device=lowering.device)


def _infer_eye(infer: Infer) -> None:
    infer.set("Out", [infer.attr("num_rows"), infer.attr("num_columns")], infer.attr("dtype"))


@register("eye", attrs={"num_rows": 1, "num_columns": 1, "dtype": "float32"}, infer=_infer_eye)
def _eye(op: Operator, lowering: Lowering) -> Kernel:
    rows, columns, dtype = op.attr("num_rows"), op.attr("num_columns"), torch_dtype(op.attr("dtype"))
    return lambda: torch.eye(rows, columns, dtype=dtype, device=lowering.device)
