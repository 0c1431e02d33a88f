"""Activations of variables: functions of each element, and softmax, which is one of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.programs.composed import hard_swish

elu = layers.elu
log_sigmoid = layers.logsigmoid
relu = layers.relu
sigmoid = layers.sigmoid
softsign = layers.softsign
tanh = layers.tanh
tanhshrink = layers.tanh_shrink


def hardswish(x: Variable, name: str | None = None) -> Variable:
    """x * min(max(0, x + 3), 6) / 6"""
    return hard_swish(x, name=name)


def relu6(x: Variable, name: str | None = None) -> Variable:
    """x between 0 and 6."""
    return layers.relu6(x, name=name)


def silu(x: Variable, name: str | None = None) -> Variable:
    """x * sigmoid(x)"""
    return layers.swish(x, name=name)


swish = silu


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:  # noqa: ARG001
    """x times the chance that a normal variable is below x."""
    return layers.gelu(x, approximate)


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x above 0, negative_slope * x below."""
    return layers.leaky_relu(x, negative_slope, name)


def hardsigmoid(x: Variable, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope * x + offset, kept between 0 and 1."""
    return layers.hard_sigmoid(x, slope, offset, name)


def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """x between `min` and `max`."""
    return layers.clip(x, min, max, name)


def softplus(x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None) -> Variable:
    """log(1 + exp(x)), which above `threshold` is x."""
    if beta != 1 or threshold != 20:
        raise NotSupportedError(f"softplus: beta must be 1 and threshold 20 for a variable, got {beta}, {threshold}")
    return layers.softplus(x, name)


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """exp(x) divided by its sum along a dimension."""
    return layers.softmax(x if dtype is None else layers.cast(x, dtype), name=name, axis=axis)


def log_softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """The logarithm of softmax."""
    return layers.log_softmax(x if dtype is None else layers.cast(x, dtype), axis, name)


def maxout(x: Variable, groups: int, axis: int = 1, name: str | None = None) -> Variable:
    """The greatest of each `groups` channels that follow each other."""
    return layers.maxout(x, groups, name, axis)


def dropout(
    x: Variable,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """While training, each value is zero with chance `p`; with "upscale_in_train" those that stay grow.

    A program that was built with `training` evaluates after `clone(for_test=True)`.
    """
    if axis is not None:
        raise NotSupportedError("dropout: axis must be left out for a variable")
    kinds = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}
    if mode not in kinds:
        raise UsageError(f"dropout: mode must be one of {', '.join(kinds)}, got {mode!r}")
    return layers.dropout(x, p, not training, name=name, dropout_implementation=kinds[mode])
