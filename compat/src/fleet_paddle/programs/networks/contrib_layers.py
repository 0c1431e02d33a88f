"""Layers of click models that had not settled: parts of columns, weights by slot, pooled rows, sums of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.optimizer.moving_average import kept
from fleet_programs.program.variable import Variable

__all__ = ["batch_fc", "ctr_metric_bundle", "fused_embedding_seq_pool", "partial_concat", "partial_sum"]


def partial_concat(input: Sequence[Variable] | Variable, start_index: int = 0, length: int = -1) -> Variable:
    """The columns from `start_index` on, `length` of them or all, of each of some matrices, side by side."""
    return layers.concat(_columns("partial_concat", input, start_index, length), 1)


def partial_sum(input: Sequence[Variable] | Variable, start_index: int = 0, length: int = -1) -> Variable:
    """The columns from `start_index` on, `length` of them or all, of each of some matrices, added up."""
    return layers.sums(_columns("partial_sum", input, start_index, length))


def batch_fc(
    input: Variable,
    param_size: Sequence[int],
    param_attr: Any,
    bias_size: Sequence[int],
    bias_attr: Any,
    act: str | None = None,
) -> Variable:
    """A layer of its own for each slot: [slots, batch, in] by weights [slots, in, out], plus biases [slots, out]."""
    layer = LayerBuilder("batch_fc")
    weight = layer.needed(param_attr, param_size, layer.variable(input).dtype)
    bias = layer.needed(bias_attr, bias_size, input.dtype, is_bias=True)
    shape = (input.shape[0], input.shape[-1], weight.shape[-1])
    if input.ndim != 3 or weight.shape != shape or bias.shape != (shape[0], shape[2]):
        raise layer.error(
            f"input {list(input.shape)} must be [slots, batch, in], param_size [slots, in, out] and bias_size [slots, "
            f"out], got {list(param_size)} and {list(bias_size)}"
        )
    return layer.activate(layers.elementwise_add(layers.matmul(input, weight), layers.unsqueeze(bias, [1])), act)


def fused_embedding_seq_pool(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    padding_idx: int | None = None,
    combiner: str = "sum",
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """The sum, for each ragged row of ids, of their rows in a table."""
    layer = LayerBuilder("fused_embedding_seq_pool")
    if combiner != "sum":
        raise layer.error(f"combiner must be sum, got {combiner!r}")
    return layers.sequence_pool(layers.embedding(input, size, is_sparse, False, padding_idx, param_attr, dtype), "sum")


def ctr_metric_bundle(
    input: Variable, label: Variable
) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """Sums over all that training sees, [1] each, of predicted clicks and of labels, which are 0 or 1, both [batch, 1].

    They are: squared errors, errors, predictions, sigmoids of predictions, clicks, examples. `fleet.metrics` makes of
    them what all workers together have seen.
    """
    layer = LayerBuilder("ctr_metric_bundle")
    said = layers.assign(layer.variable(input))
    truth = layers.cast(layer.variable(label, "label"), input.dtype)
    said.stop_gradient = truth.stop_gradient = True
    away = layers.elementwise_sub(said, truth)
    ones = layers.elementwise_add(layers.scale(said, 0.0), layers.fill_constant([1], input.dtype, 1.0))
    parts = (layers.square(away), layers.abs(away), said, layers.sigmoid(said), truth, ones)
    stems = ("sqrerr", "abserr", "prob", "q", "pos_num", "ins_num")
    first, *others = (_summed(f"local_{stem}", part) for stem, part in zip(stems, parts, strict=True))
    return (first, *others)  # type: ignore[return-value]


def _summed(stem: str, part: Variable) -> Variable:
    total = kept(stem, [1], 0.0, part.dtype)
    layers.assign(layers.elementwise_add(total, layers.reduce_sum(part)), total)
    return total


def _columns(what: str, input: Sequence[Variable] | Variable, start: int, length: int) -> list[Variable]:
    layer = LayerBuilder(what)
    several = [input] if isinstance(input, Variable) else list(input)
    shapes = {layer.variable(one).shape[1:] for one in several}
    width = next(iter(shapes))[0] if len(shapes) == 1 and len(next(iter(shapes))) == 1 else 0
    begin = start + width if start < 0 else start
    end = width if length < 0 else begin + length
    if not 0 <= begin < end <= width:
        raise layer.error(
            f"inputs must be matrices of one width that has the columns, got {[list(one.shape) for one in several]}, "
            f"start_index {start} and length {length}"
        )
    return [layers.slice(one, [1], [begin], [end]) for one in several]
