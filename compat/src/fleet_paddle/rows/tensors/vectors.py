"""Rows of functions of vectors, labels and lengths: how alike two are, masks, softer labels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.programs.layers.table import gather_tree, sequence_mask
from fleet_paddle.programs.networks import composed
from fleet_paddle.programs.ops.searching.beams import whole_ways
from fleet_paddle.programs.variables.sized import FIRST, taking
from fleet_paddle.rows.function import function
from fleet_paddle.rows.operators import on_variables
from fleet_paddle.rows.window import plain
from fleet_programs import layers
from fleet_programs.program.variable import Variable

T = torch.Tensor


def _normalised_variable(x: Variable, p: float, axis: int, epsilon: float, name: str | None) -> Variable:
    if p != 2:
        length = on_variables("norm")(x, p, axis, True, None)
        return layers.elementwise_div(x, layers.clip(length, epsilon, float("inf")), name=name)
    return layers.elementwise_div(x, _length(layers.reduce_sum(layers.square(x), axis, True), epsilon), name=name)


def _cosine_of_variables(x1: Variable, x2: Variable, axis: int, eps: float) -> Variable:
    products = [layers.reduce_sum(one * other, axis) for one, other in ((x1, x2), (x1, x1), (x2, x2))]
    return products[0] / (_length(products[1], eps) * _length(products[2], eps))


def _length(square: Variable, least: float) -> Variable:
    """The square root, or `least` if that is more; limited before the root, which has no slope at 0."""
    return layers.sqrt(layers.clip(square, least**2, float("inf")))


def _smoothed(label: T, prior_dist: T | None, epsilon: float) -> T:
    rest: Any = 1 / label.shape[-1] if prior_dist is None else prior_dist
    made: T = (1 - epsilon) * label + epsilon * rest
    return made


def _mask(x: T, maxlen: Any, dtype: Any) -> T:
    longest = int(torch.amax(x)) if maxlen is None else int(maxlen)
    places = torch.arange(longest, device=x.device)
    return (places < torch.unsqueeze(x, -1)).to(dtype_of(dtype))


FUNCTIONS = [
    function(
        "F.normalize(x, p=2, axis=1, epsilon=1e-12, name)",
        "x divided by its p-norm along a dimension, which counts as `epsilon` at least.",
        lambda x, p, axis, epsilon: F.normalize(plain(x), p, axis if x.dim() > 1 else 0, epsilon),
        _normalised_variable,
    ),
    function(
        "F.cosine_similarity(x1, x2, axis=1, eps=1e-08)",
        "The cosine of the angle between vectors; a product of lengths below `eps` counts as `eps`.",
        F.cosine_similarity,
        _cosine_of_variables,
        "CosineSimilarity",
        2,
    ),
    function(
        "F.label_smooth(label, prior_dist=None, epsilon=0.1, name)",
        "Of a distribution over classes the share `epsilon` goes to `prior_dist`, or to all classes alike.",
        _smoothed,
        lambda label, prior, epsilon, name: composed.label_smooth(label, prior, epsilon, label.dtype, name),
    ),
    function(
        "F.sequence_mask(x, maxlen=None, dtype='int64', name)",
        "1 for the places before each length, 0 from there on, up to `maxlen` or the greatest length.",
        _mask,
        taking(sequence_mask, FIRST["sequence_mask"]),
    ),
    function(
        "F.gather_tree(ids, parents)",
        "Whole ways of a beam search, [time, batch, beam], from each step's ids and the beams that they came from.",
        whole_ways,
        gather_tree,
        num_operands=2,
    ),
]
