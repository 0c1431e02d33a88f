"""Layers that are a few others together, under the names that scripts know."""

from __future__ import annotations

from typing import Any

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.program.variable import Variable

__all__ = ["dice_loss", "label_smooth"]


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """Labels as probabilities, `epsilon` of which is spread over all classes evenly, or as `prior_dist` has it."""
    if not 0 <= epsilon <= 1:
        raise UsageError(f"label_smooth: epsilon must be from 0 to 1, got {epsilon}")
    whole = label if label.dtype == str(dtype) else layers.cast(label, dtype)
    if prior_dist is None:
        return layers.scale(whole, 1.0 - epsilon, epsilon / label.shape[-1], name=name)
    return layers.elementwise_add(layers.scale(whole, 1.0 - epsilon), layers.scale(prior_dist, epsilon), name=name)


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5) -> Variable:
    """1 - how much probabilities and labels overlap, averaged over samples; `label` has a last size of 1."""
    hot = layers.one_hot(label, input.shape[-1])
    dims = list(range(1, input.ndim))
    both = layers.reduce_sum(layers.elementwise_mul(input, hot), dims)
    each = layers.elementwise_add(layers.reduce_sum(input, dims), layers.reduce_sum(hot, dims))
    return layers.mean(layers.scale(layers.elementwise_div(both, layers.scale(each, bias=epsilon)), -2.0, 1.0))


def one_hot_v2(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """A 1 at the place of each label; `layers.one_hot` wants a last size of 1 instead."""
    return layers.one_hot(layers.unsqueeze(input, [input.ndim]), depth, allow_out_of_range)
