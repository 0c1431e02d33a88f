"""Layers that give tags to the values of a row: a conditional random field, its best tags, and how good chunks are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_paddle.programs.layers.ragged.order import order_of
from fleet_paddle.programs.layers.ragged.sequence import sequence_pad
from fleet_paddle.programs.layers.table import sequence_unpad
from fleet_paddle.programs.ops.losses.chunks import OUTPUTS
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import offsets_of
from fleet_programs.layers.table import fill_constant
from fleet_programs.program.variable import Variable

__all__ = ["chunk_eval", "crf_decoding", "linear_chain_crf"]


def linear_chain_crf(
    input: Variable, label: Variable, param_attr: Any = None, length: Variable | None = None
) -> Variable:
    """The loss of each row's tags, [rows, 1]: less than 0 never, and 0 where no other tags are possible.

    `input` are scores, ragged [values, tags], and `label` is ragged [values, 1]; or both are padded, [rows, longest,
    ...], and `length` says how long each row is. The parameter is [tags + 2, tags]: scores of first tags, of last tags,
    and of each tag after another.
    """
    layer = LayerBuilder("linear_chain_crf")
    emission, tags = _unpadded(layer, input, length), _unpadded(layer, label, length, "label")
    transition = layer.needed(param_attr, [emission.shape[-1] + 2, emission.shape[-1]], emission.dtype)
    loss = layer.temporary(emission.dtype)
    inputs = {"Emission": emission, "Transition": transition, "Label": tags, **order_of(layer, emission)}
    layer.op("linear_chain_crf", inputs, {"LogLikelihood": loss})
    return loss


def crf_decoding(
    input: Variable, param_attr: Any, label: Variable | None = None, length: Variable | None = None
) -> Variable:
    """The best tags of each row, int64; with `label` 1 where they are right, and 0 elsewhere.

    `param_attr` names the parameter of `linear_chain_crf`; `input` and `length` are as there. What was padded is
    padded again, with 0.
    """
    layer = LayerBuilder("crf_decoding")
    emission = _unpadded(layer, input, length)
    tags = None if label is None else _unpadded(layer, label, length, "label")
    transition = layer.needed(param_attr, [emission.shape[-1] + 2, emission.shape[-1]], emission.dtype)
    path = layer.temporary("int64", stop_gradient=True)
    inputs = {"Emission": emission, "Transition": transition, **order_of(layer, emission), "Label": tags}
    layer.op("crf_decoding", inputs, {"ViterbiPath": path})
    if length is None:
        return path
    padded = sequence_pad(path, fill_constant([1], "int64", 0), None if input.shape[1] < 0 else input.shape[1])[0]
    return layer.apply("squeeze", {"X": padded}, {"axes": [2]}, "int64")


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """(precision, recall, F1, chunks found, chunks there are, chunks found right) of tags, each [1].

    A tag is `type * tags of a type + place`; places are those of `chunk_scheme`: IOB (begins, goes on), IOE (goes on,
    ends), IOBES (begins, goes on, ends, is alone) or plain (one). The greatest tag is no chunk. A chunk is right if it
    begins, ends and is of a type as in `label`.
    """
    layer = LayerBuilder("chunk_eval")
    found, wanted = _unpadded(layer, input, seq_length), _unpadded(layer, label, seq_length, "label")
    outs = [layer.temporary("float32" if index < 3 else "int64", stop_gradient=True) for index in range(len(OUTPUTS))]
    layer.op(
        "chunk_eval",
        {"Inference": found, "Label": wanted, "Offsets": offsets_of(layer, wanted, "label")},
        dict(zip(OUTPUTS, outs, strict=True)),
        {
            "chunk_scheme": chunk_scheme,
            "num_chunk_types": int(num_chunk_types),
            "excluded_chunk_types": [int(one) for one in excluded_chunk_types or ()],
        },
    )
    return outs[0], outs[1], outs[2], outs[3], outs[4], outs[5]


def _unpadded(layer: LayerBuilder, value: Variable, length: Variable | None, what: str = "input") -> Variable:
    """A ragged variable, cut from a padded one if there are lengths."""
    if length is None:
        offsets_of(layer, value, what)
        return value
    return sequence_unpad(layer.variable(value, what), layer.variable(length, "length"))
