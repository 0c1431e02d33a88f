"""Rows of normalisation: over a batch, over an image, over the last dimensions, over neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.rows.function import function
from fleet_paddle.rows.function_builder import function_builder
from fleet_paddle.rows.window import Sizes, back, to_first
from fleet_programs import layers
from fleet_programs.layers.building.alike import add_batch_norm, add_layer_norm
from fleet_programs.program.variable import Variable

T = torch.Tensor

_FORMATS = ("NC", "NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC")


def channels_are_last(what: str, data_format: str, dims: int) -> bool:
    """Whether a tensor of `dims` dimensions has its channels last; with two there is one place for them."""
    if data_format not in _FORMATS:
        raise UsageError(f"{what}: data_format must be one of {', '.join(_FORMATS)}, got {data_format!r}")
    if dims < 2:
        raise UsageError(f"{what}: the input must have a batch and channels, got {dims} dimensions")
    return data_format != "NC" and data_format.endswith("C") and dims > 2


def chosen_format(layer: object, given: str | None, known: Sequence[str]) -> str:
    """The format that a layer of norms was given, or its first; UsageError if it knows no such."""
    chosen = known[0] if given is None else given
    if chosen not in known:
        raise UsageError(f"{type(layer).__name__}: data_format must be {' or '.join(known)}, got {given!r}")
    return chosen


def _batch_norm(
    x: T,
    running_mean: T,
    running_var: T,
    weight: T | None,
    bias: T | None,
    training: bool,
    momentum: float,
    epsilon: float,
    data_format: str,
    use_global_stats: bool | None,
) -> T:
    of_batch = training if use_global_stats is None else not use_global_stats
    last = channels_are_last("batch_norm", data_format, x.dim())
    values = to_first(x, last)
    if not of_batch:
        return back(F.batch_norm(values, running_mean, running_var, weight, bias, False, 0.0, epsilon), last)
    count = values.numel() // values.shape[1]
    if count == 1:
        return x.clone()
    # torch gives the variance of a sample; what is kept is that of the batch.
    mean, variance = torch.zeros_like(running_mean), torch.zeros_like(running_var)
    made = F.batch_norm(values, mean, variance, weight, bias, True, 1.0, epsilon)
    remember(running_mean, running_var, mean, variance * ((count - 1) / count), momentum)
    return back(made, last)


@torch.no_grad()
def remember(running_mean: T, running_var: T, mean: T, variance: T, momentum: float) -> None:
    """Take a batch's statistics into the running ones."""
    running_mean.lerp_(mean.to(running_mean.dtype), 1 - momentum)
    running_var.lerp_(variance.to(running_var.dtype), 1 - momentum)


def _batch_norm_of_variables(
    x: Variable,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None,
    bias: Variable | None,
    training: bool,
    momentum: float,
    epsilon: float,
    data_format: str | None,
    use_global_stats: bool | None,
    name: str | None,
) -> Variable:
    layer = function_builder("batch_norm", name)
    channels = list(running_mean.shape)
    inputs = {
        "X": layer.variable(x, "x"),
        "Scale": layers.ones(channels, x.dtype) if weight is None else weight,
        "Bias": layers.zeros(channels, x.dtype) if bias is None else bias,
        "Mean": running_mean,
        "Variance": running_var,
    }
    layout = "NHWC" if data_format in ("NHWC", "NLC", "NDHWC") else "NCHW"
    return add_batch_norm(layer, inputs, momentum, epsilon, not training, bool(use_global_stats), layout)


def _sizes(normalized_shape: Sizes) -> list[int]:
    return [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)


def _layer_norm_of_variables(
    x: Variable, shape: Sizes, weight: Variable | None, bias: Variable | None, epsilon: float, name: str | None
) -> Variable:
    layer, sizes = function_builder("layer_norm", name), _sizes(shape)
    if not 0 < len(sizes) < layer.variable(x, "x").ndim or list(x.shape[-len(sizes) :]) != sizes:
        raise layer.error(f"x {x.name!r} must end with the sizes {sizes} after others, got shape {list(x.shape)}")
    inputs: dict[str, Variable | None] = {"X": x}
    for slot, given in (("Scale", weight), ("Bias", bias)):
        if given is not None:
            inputs[slot] = given if given.ndim == 1 else layers.reshape(given, [-1])
    return add_layer_norm(layer, inputs, x.ndim - len(sizes), epsilon)


def _instance_norm(
    x: T, mean: Any, var: Any, weight: T | None, bias: T | None, of_input: bool, _: float, eps: float, layout: str
) -> T:
    _of_input_alone(mean, var, of_input)
    last = channels_are_last("instance_norm", layout, x.dim())
    return back(F.instance_norm(to_first(x, last), None, None, weight, bias, True, 0.0, eps), last)


def norm_of_channels(
    type: str, x: Variable, weight: Any, bias: Any, epsilon: float, layout: str, groups: int | None = None
) -> Variable:
    """`group_norm` or `instance_norm` of a variable, wherever its channels are."""
    layer = function_builder(type)
    last, rank = channels_are_last(type, layout, layer.variable(x, "x").ndim), x.ndim
    if rank == 2:
        x = layers.unsqueeze(x, [2])
    elif last:
        x = layers.transpose(x, [0, rank - 1, *range(1, rank - 1)])
    out = layer.temporary(x.dtype)
    attrs = {"epsilon": float(epsilon), **({} if groups is None else {"groups": groups})}
    layer.op(type, {"X": x, "Scale": weight, "Bias": bias}, {"Y": out}, attrs)
    if rank == 2:
        return layers.squeeze(out, [2])
    return layers.transpose(out, [0, *range(2, rank), 1]) if last else out


def _instance_norm_of_variables(
    x: Variable,
    mean: Any,
    var: Any,
    weight: Any,
    bias: Any,
    of_input: bool,
    _: float,
    eps: float,
    layout: str,
    *name: Any,
) -> Variable:
    _of_input_alone(mean, var, of_input)
    return norm_of_channels("instance_norm", x, weight, bias, eps, layout)


def _of_input_alone(mean: Any, var: Any, of_input: bool) -> None:
    if mean is not None or var is not None or not of_input:
        raise NotSupportedError("instance_norm: statistics of the input alone are built; leave the running ones out")


FUNCTIONS = [
    function(
        "F.batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.9, "
        "epsilon=1e-05, data_format='NCHW', use_global_stats=None, name)",
        """Each channel with mean 0 and variance 1: those of the batch while training, else the running ones.

    While training the running ones keep the share `momentum`, and get the rest of the batch's mean and biased variance.
    `use_global_stats` says outright which of them are meant. A single value of each channel stays as it is. A program
    that was built with `training` evaluates after `clone(for_test=True)`.
    """,
        _batch_norm,
        _batch_norm_of_variables,
        num_operands=3,
    ),
    function(
        "F.layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-05, name)",
        "Mean 0 and variance 1 over the last dimensions.",
        lambda x, shape, weight, bias, epsilon: torch.layer_norm(x, _sizes(shape), weight, bias, epsilon),
        _layer_norm_of_variables,
    ),
    function(
        "F.instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
        "momentum=0.9, eps=1e-05, data_format='NCHW', name)",
        "Each channel of each image with mean 0 and variance 1; nothing is kept, so `momentum` says nothing.",
        _instance_norm,
        _instance_norm_of_variables,
    ),
]
