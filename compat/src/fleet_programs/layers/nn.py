"""`fc` and `dropout`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["dropout", "fc"]


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    is_test: bool = False,  # noqa: ARG001 - it never changed anything
    name: str | None = None,
) -> Variable:
    """A fully connected layer: `act(sum of input x weight + bias)`, one weight for each input.

    The first `num_flatten_dims` dimensions stay, those after them are columns. `param_attr` may be a list, one for each
    input.
    """
    layer = LayerBuilder("fc", name)
    inputs = [layer.variable(one) for one in (input if isinstance(input, list | tuple) else [input])]
    attrs = list(param_attr) if isinstance(param_attr, list | tuple) else [param_attr] * len(inputs)
    if not inputs:
        raise layer.error("input must be a Variable or a list of them, got an empty list")
    if len(attrs) != len(inputs):
        raise layer.error(f"param_attr must be one, or one for each input, got {len(attrs)} for {len(inputs)} inputs")
    products = [_product(layer, one, attr, size, num_flatten_dims) for one, attr in zip(inputs, attrs, strict=True)]
    total = products[0]
    if len(products) > 1:
        total = layer.apply("sum", {"X": products}, dtype=total.dtype)
    cut = num_flatten_dims if num_flatten_dims >= 0 else inputs[0].ndim + num_flatten_dims
    return layer.activate(layer.biased(total, bias_attr, size, cut), act)


def _product(layer: LayerBuilder, input: Variable, attr: Any, size: int, num_flatten_dims: int) -> Variable:
    cut = num_flatten_dims if num_flatten_dims >= 0 else input.ndim + num_flatten_dims
    if not 0 < cut < input.ndim:
        raise layer.error(
            f"num_flatten_dims must be from 1 to {input.ndim - 1} for {input.name!r} of shape {list(input.shape)}, "
            f"got {num_flatten_dims}"
        )
    if input.dtype not in FLOATS:
        raise layer.error(
            f"input {input.name!r} must be a float, got {input.dtype}; cast it, or look it up: embedding()"
        )
    columns = input.shape[cut:]
    if any(count < 0 for count in columns):
        raise layer.error(f"{input.name!r} of shape {list(input.shape)} must have known sizes from dimension {cut} on")
    weight = layer.needed(attr, [prod(columns), size], input.dtype)
    return layer.apply("mul", {"X": input, "Y": weight}, {"x_num_col_dims": cut, "y_num_col_dims": 1}, input.dtype)


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """While training, each value is zero with probability `dropout_prob`; in evaluation all stay.

    To keep their size alike, "downgrade_in_infer" makes values smaller in evaluation, "upscale_in_train" makes those
    that stay larger while training. With a `seed` every step has the same zeros.
    """
    layer = LayerBuilder("dropout", name)
    out = layer.temporary(layer.variable(x, "x").dtype)
    mask = layer.temporary("uint8", stop_gradient=True)
    attrs = {
        "dropout_prob": float(dropout_prob),
        "is_test": bool(is_test),
        "fix_seed": seed is not None,
        "seed": seed or 0,
        "dropout_implementation": dropout_implementation,
    }
    layer.op("dropout", {"X": x}, {"Out": out, "Mask": mask}, attrs)
    return out
