"""Layers that align what is heard or seen with what it spells: `warpctc`, `ctc_greedy_decoder`, `edit_distance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_paddle.programs.layers.ragged.sequence import sequence_pad
from fleet_paddle.programs.layers.table import sequence_erase
from fleet_paddle.programs.networks.ctc import ctc_losses
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets, offsets_of
from fleet_programs.program.variable import Variable

__all__ = ["ctc_greedy_decoder", "edit_distance", "warpctc"]


def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """-log of the probability that scores spell the labels, repeats and blanks left out, [batch, 1].

    `input` are scores before softmax: [time, batch, classes] with both lengths, or ragged [values, classes], and then
    the labels are ragged, too. With `norm_by_times` gradients are divided by the number of time steps.
    """
    if input_length is None or label_length is None:
        padded, input_length = _padded(input, 0.0)
        input = layers.transpose(padded, [1, 0, 2])
        label, label_length = _padded(label, 0)
    if label.ndim == 3:
        label = layers.squeeze(label, [2])
    losses = ctc_losses(input, label, input_length, label_length, blank, norm_by_times)
    return layers.reshape(losses, [-1, 1])


def ctc_greedy_decoder(
    input: Variable,
    blank: int,
    input_length: Variable | None = None,
    padding_value: int = 0,
    name: str | None = None,
) -> Any:
    """What the likeliest class of each step spells, repeats and blanks left out.

    Of ragged `input`, [values, classes], ragged ids [values, 1]. With `input_length`, of [batch, time, classes], ids
    [batch, time] that end in `padding_value`, and their numbers [batch, 1].
    """
    layer = LayerBuilder("ctc_align", name)
    best = layers.argmax(layer.variable(input), -1)
    attrs = {"blank": int(blank), "padding_value": int(padding_value)}
    out = layer.temporary("int64", stop_gradient=True)
    if input_length is not None:
        sizes = layer.temporary("int64", stop_gradient=True)
        inputs = {"Input": best, "InputLength": layer.variable(input_length, "input_length")}
        layer.op("ctc_align_padded", inputs, {"Output": out, "OutputLength": sizes}, attrs)
        return out, sizes
    outputs = {"Output": out, "OutOffsets": new_offsets(layer, out)}
    layer.op("ctc_align", {"Input": best, "Offsets": offsets_of(layer, input)}, outputs, {"blank": int(blank)})
    return out


def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """([batch, 1], [1]): how many ids must be put in, taken out or replaced to make each label, and the batch's size.

    `normalized` divides by the length of the label. Both are ragged ids, or [batch, time] with lengths.
    """
    layer = LayerBuilder("edit_distance")
    if input_length is None or label_length is None:
        if ignored_tokens:
            input, label = (sequence_erase(one, list(ignored_tokens)) for one in (input, label))
        input, input_length = _padded(input, 0)
        label, label_length = _padded(label, 0)
    elif ignored_tokens:
        raise layer.error("ignored_tokens are for ragged input; take them out before")
    out, number = layer.temporary("float32", stop_gradient=True), layer.temporary("int64", stop_gradient=True)
    layer.op(
        "edit_distance",
        {"Hyps": input, "Refs": label, "HypsLength": input_length, "RefsLength": label_length},
        {"Out": out, "SequenceNum": number},
        {"normalized": bool(normalized)},
    )
    return out, number


def _padded(x: Variable, value: float) -> tuple[Variable, Variable]:
    """Ragged rows side by side, and how long each is."""
    return sequence_pad(x, layers.fill_constant([1], x.dtype, value))
