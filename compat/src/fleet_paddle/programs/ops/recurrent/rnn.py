"""Recurrent networks over whole sequences, and one step of them, by torch's own kernels.

Weights are those of torch: for each layer, and for each direction of it, what the input and the state are multiplied
with, and two biases or none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
"""By mode: how many times as many rows as states the weights have."""
_LAYERS: dict[str, Callable[..., Any]] = {
    "LSTM": torch.lstm,
    "GRU": torch.gru,
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
}
_CELLS: dict[str, Callable[..., Any]] = {
    "LSTM": torch.lstm_cell,
    "GRU": torch.gru_cell,
    "RNN_TANH": torch.rnn_tanh_cell,
    "RNN_RELU": torch.rnn_relu_cell,
}


def num_states(mode: str) -> int:
    """How many states go from step to step."""
    return 2 if mode == "LSTM" else 1


def lengths_of(what: str, given: T) -> T:
    """Lengths as torch packs by them: in host memory, each at least 1."""
    lengths = given.reshape(-1).cpu().long()
    if lengths.numel() and int(lengths.min()) < 1:
        raise UsageError(f"{what}: sequence_length must be at least 1, got {lengths.tolist()}")
    return lengths


def _check(infer: Infer, rank: int) -> int:
    """The number of biases of one set of weights, after its mode, types and shapes are known to be right."""
    mode = infer.attr("mode")
    if mode not in GATES:
        raise infer.fail(f"mode must be one of {', '.join(GATES)}, got {mode!r}")
    infer.require_dtype("Input", FLOATS)
    infer.require_rank("Input", rank)
    for slot in ("WeightList", "PreState"):
        infer.require_dtype(slot, frozenset({infer.dtype("Input")}))
    given = len(infer.vars("PreState"))
    if given not in (0, num_states(mode)):
        raise infer.fail(f"{mode} takes {num_states(mode)} first states, got {given}")
    return len(infer.vars("WeightList"))


def _require_shape(infer: Infer, slot: str, index: int, shape: tuple[int, ...]) -> None:
    var = infer.var(slot, index)
    if not may_equal(var.shape, shape):
        raise infer.fail(f"{slot} {var.name!r} must have shape {list(shape)}, got {list(var.shape)}")


def _infer(infer: Infer) -> None:
    count, mode, width = _check(infer, 3), infer.attr("mode"), infer.attr("hidden_size")
    ways, number = 2 if infer.attr("is_bidirec") else 1, infer.attr("num_layers")
    if number < 1 or count not in (2 * ways * number, 4 * ways * number):
        raise infer.fail(f"{number} layers in {ways} directions have 2 or 4 weights each, got {count} in all")
    x, each = infer.shape("Input"), count // (ways * number)
    for place in range(ways * number):
        columns = x[2] if place < ways else ways * width
        shapes = ((GATES[mode] * width, columns), (GATES[mode] * width, width), *((GATES[mode] * width,),) * 2)
        for own in range(each):
            _require_shape(infer, "WeightList", place * each + own, shapes[own])
    batch = x[1] if infer.attr("time_major") else x[0]
    for index in range(len(infer.vars("PreState"))):
        _require_shape(infer, "PreState", index, (ways * number, batch, width))
    if infer.has("SequenceLength"):
        infer.require_dtype("SequenceLength", INTEGERS)
    infer.set("Out", (*x[:2], ways * width), infer.dtype("Input"))
    for index in range(num_states(mode)):
        infer.set("State", (ways * number, batch, width), infer.dtype("Input"), index=index)


@register(
    "rnn",
    inputs=("Input", "WeightList*", "PreState*", "SequenceLength?"),
    outputs=("Out", "State*"),
    attrs={"mode": "LSTM", "hidden_size": 1, "num_layers": 1, "is_bidirec": False, "time_major": False},
    infer=_infer,
    grad=Grad(
        needs=("Input", "WeightList", "PreState", "SequenceLength"),
        wrt=("Input", "WeightList", "PreState"),
        outs=("Out", "State"),
    ),
)
def _rnn(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    mode, width, is_first = op.attr("mode"), op.attr("hidden_size"), not op.attr("time_major")
    both, number = op.attr("is_bidirec"), op.attr("num_layers")
    ways, num_weights = 2 if both else 1, len(op.input("WeightList"))
    has_bias, has_lengths = num_weights == 4 * ways * number, bool(op.input("SequenceLength"))
    layer, is_lstm = _LAYERS[mode], mode == "LSTM"

    def rnn(x: T, *given: T) -> tuple[T, ...]:
        weights, states = list(given[:num_weights]), given[num_weights : len(given) - has_lengths]
        if not states:
            zeros = x.new_zeros(ways * number, x.shape[0 if is_first else 1], width)
            states = (zeros,) * num_states(mode)
        # cuDNN keeps what its gradient needs only if it is told that this is training; nothing is dropped here.
        settings = (has_bias, number, 0.0, torch.is_grad_enabled(), both)
        if not has_lengths:
            return tuple(layer(x, states if is_lstm else states[0], weights, *settings, is_first))
        packed = pack_padded_sequence(x, lengths_of("rnn", given[-1]), is_first, enforce_sorted=False)
        there, back = packed.sorted_indices, packed.unsorted_indices
        assert there is not None
        assert back is not None
        first = tuple(one.index_select(1, there) for one in states)
        out, *last = layer(packed.data, packed.batch_sizes, first if is_lstm else first[0], weights, *settings)
        whole = pad_packed_sequence(packed._replace(data=out), is_first, total_length=x.shape[1 if is_first else 0])[0]
        return whole, *(one.index_select(1, back) for one in last)

    return rnn


def _infer_cell(infer: Infer) -> None:
    count, mode, width = _check(infer, 2), infer.attr("mode"), infer.attr("hidden_size")
    if count not in (2, 4):
        raise infer.fail(f"a cell has 2 or 4 weights, got {count}")
    x, rows = infer.shape("Input"), GATES[mode] * width
    for index, shape in enumerate(((rows, x[1]), (rows, width), (rows,), (rows,))[:count]):
        _require_shape(infer, "WeightList", index, shape)
    for index in range(num_states(mode)):
        _require_shape(infer, "PreState", index, (x[0], width))
        infer.set("State", (x[0], width), infer.dtype("Input"), index=index)


@register(
    "rnn_cell",
    inputs=("Input", "WeightList*", "PreState*"),
    outputs=("State*",),
    attrs={"mode": "LSTM", "hidden_size": 1},
    infer=_infer_cell,
    grad=Grad(needs=("Input", "WeightList", "PreState"), wrt=("Input", "WeightList", "PreState")),
)
def _rnn_cell(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    cell, is_lstm, num_weights = _CELLS[op.attr("mode")], op.attr("mode") == "LSTM", len(op.input("WeightList"))

    def step(x: T, *given: T) -> Any:
        weights, states = given[:num_weights], given[num_weights:]
        return cell(x, states if is_lstm else states[0], *weights)

    return step
