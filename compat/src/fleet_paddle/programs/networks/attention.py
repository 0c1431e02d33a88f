"""Attention of several heads over variables: what `nn.MultiHeadAttention` adds to a program."""

from __future__ import annotations

from fleet_programs import layers
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.program.variable import Variable

FAR_BELOW = 1e9
"""What is taken from the score of a place that a mask of bools or ints leaves out."""


def heads(x: Variable, number: int, width: int) -> Variable:
    """[batch, places, number * width] as [batch, number, places, width]."""
    return layers.transpose(layers.reshape(x, [0, 0, number, width]), [0, 2, 1, 3])


def joined(x: Variable) -> Variable:
    """The way back."""
    return layers.reshape(layers.transpose(x, [0, 2, 1, 3]), [0, 0, x.shape[1] * x.shape[3]])


def added(mask: Variable | None, dtype: str) -> Variable | None:
    """A mask as what is added to scores: floats as they are; of bools and ints, False and 0 leave a place out."""
    if mask is None or mask.dtype == dtype:
        return mask
    cast = layers.cast(mask, dtype)
    return cast if mask.dtype in FLOATS else layers.scale(cast, FAR_BELOW, -FAR_BELOW)


def attended(
    queries: Variable,
    keys: Variable,
    values: Variable,
    mask: Variable | None,
    dropout: float,
    is_test: bool,
    is_fused: bool,
) -> tuple[Variable, Variable | None]:
    """(what the heads see, with what weights); one operator without weights if `is_fused`, and nothing else asks."""
    if is_fused and mask is None and (not dropout or is_test):
        return layers.scaled_dot_product_attention(queries, keys, values), None
    scores = layers.matmul(queries, keys, transpose_y=True, alpha=queries.shape[-1] ** -0.5)
    shares = layers.softmax(scores if mask is None else layers.elementwise_add(scores, mask))
    if dropout:
        shares = layers.dropout(shares, dropout, is_test, dropout_implementation="upscale_in_train")
    return layers.matmul(shares, values), shares


def no_places(like: Variable, number: int, width: int) -> Variable:
    """Keys or values of no place yet, [batch, number, 0, width]."""
    return layers.fill_constant_batch_size_like(like, [-1, number, 0, width], like.dtype, 0.0)
