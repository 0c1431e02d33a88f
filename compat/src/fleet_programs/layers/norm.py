"""Normalisation: over a batch, and within an example."""

from __future__ import annotations

from math import prod
from typing import Any

from fleet_programs.layers.building.alike import add_batch_norm, add_layer_norm
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.table import transpose
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.notes import leave_out_of_average
from fleet_programs.program.variable import Variable

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm"]


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,  # noqa: ARG001 - values are let go where they were used last, whatever it says
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Each channel with mean 0 and variance 1 over the batch, then times a trained scale, plus a trained bias.

    For evaluation the mean and (biased) variance are kept: `momentum` of the old, the rest of the batch's. They are
    what is used with `is_test` or `use_global_stats`.
    """
    layer = LayerBuilder("batch_norm", name)
    layer.variable(input)
    if not 2 <= input.ndim <= 5:
        raise layer.error(f"input {input.name!r} must have 2 to 5 dimensions, got shape {list(input.shape)}")
    if not 0 <= momentum <= 1:
        raise layer.error(f"momentum must be from 0 to 1, got {momentum}")
    channels = [input.shape[-1] if data_layout == "NHWC" else input.shape[1]]
    scale = layer.needed(param_attr, channels, input.dtype, default=Constant(1.0))
    bias = layer.needed(bias_attr, channels, input.dtype, is_bias=True)
    kept_as = [ParamAttr(one, trainable=False) for one in (moving_mean_name, moving_variance_name)]
    mean = layer.needed(kept_as[0], channels, input.dtype, default=Constant(0.0))
    variance = layer.needed(kept_as[1], channels, input.dtype, default=Constant(1.0))
    if not do_model_average_for_mean_and_var:
        leave_out_of_average(layer.block.program.notes, mean.name, variance.name)
    inputs = {"X": input, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance}
    return layer.activate(add_batch_norm(layer, inputs, momentum, epsilon, is_test, use_global_stats, data_layout), act)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Each example with mean 0 and variance 1 over the dimensions from `begin_norm_axis` on.

    `scale` and `shift` say whether there are a trained scale and a trained bias.
    """
    layer = LayerBuilder("layer_norm", name)
    layer.variable(input)
    if not 0 < begin_norm_axis < input.ndim:
        raise layer.error(
            f"begin_norm_axis must be from 1 to {input.ndim - 1} for {input.name!r} of shape {list(input.shape)}, "
            f"got {begin_norm_axis}"
        )
    for wanted, attr, what in ((scale, param_attr, "param_attr"), (shift, bias_attr, "bias_attr")):
        if not wanted and attr not in (None, False):
            raise layer.error(f"{what} is given, but what it is for is switched off")
    shape = [prod(input.shape[begin_norm_axis:])]
    inputs: dict[str, Any] = {"X": input}
    if scale:
        inputs["Scale"] = layer.parameter(param_attr, shape, input.dtype, default=Constant(1.0))
    if shift:
        inputs["Bias"] = layer.parameter(bias_attr, shape, input.dtype, is_bias=True)
    return layer.activate(add_layer_norm(layer, inputs, begin_norm_axis, epsilon), act)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Each group of channels of an example with mean 0 and variance 1, then a trained scale and bias by channel."""
    layer = LayerBuilder("group_norm", name)
    if data_layout not in ("NCHW", "NHWC"):
        raise layer.error(f"data_layout must be NCHW or NHWC, got {data_layout!r}")
    attrs = {"groups": groups, "epsilon": float(epsilon)}
    rank, last = layer.variable(input).ndim, data_layout == "NHWC"
    image = transpose(input, [0, rank - 1, *range(1, rank - 1)]) if last else input
    out = _by_channel(layer, "group_norm", image, param_attr, bias_attr, attrs)
    return layer.activate(transpose(out, [0, *range(2, rank), 1]) if last else out, act)


def instance_norm(
    input: Variable, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, name: str | None = None
) -> Variable:
    """Each channel of an example with mean 0 and variance 1, then a trained scale and bias by channel."""
    layer = LayerBuilder("instance_norm", name)
    return _by_channel(layer, "instance_norm", input, param_attr, bias_attr, {"epsilon": float(epsilon)})


def _by_channel(
    layer: LayerBuilder, type: str, input: Variable, param_attr: Any, bias_attr: Any, attrs: dict[str, Any]
) -> Variable:
    layer.variable(input)
    if input.ndim < 3:
        raise layer.error(f"input {input.name!r} must be [batch, channels, sizes...], got shape {list(input.shape)}")
    channels = [input.shape[1]]
    scale = layer.parameter(param_attr, channels, input.dtype, default=Constant(1.0))
    bias = layer.parameter(bias_attr, channels, input.dtype, is_bias=True)
    out = layer.temporary(input.dtype)
    layer.op(type, {"X": input, "Scale": scale, "Bias": bias}, {"Y": out}, attrs)
    return out
