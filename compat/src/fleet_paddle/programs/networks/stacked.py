"""`basic_gru` and `basic_lstm` of fluid.contrib: layers of cells, one over the other, in one direction or in both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet_paddle.programs.layers.recurrent.cells import GRUCell, LSTMCell, rnn
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["basic_gru", "basic_lstm"]


def basic_gru(
    input: Variable,
    init_hidden: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: Any = None,
    activation: Any = None,
    dtype: Any = "float32",
    name: str = "basic_gru",
) -> tuple[Variable, Variable]:
    """(outputs of the last layer, states after the last step [layers * directions, batch, hidden_size]).

    Input is [batch, time, width], or [time, batch, width] without `batch_first`. A layer's output is dropped out before
    the next sees it, and before it is given back.
    """

    def cell(suffix: str) -> GRUCell:
        return GRUCell(hidden_size, param_attr, bias_attr, gate_activation, activation, dtype, f"{name}{suffix}")

    ways = 2 if bidirectional else 1
    layer = LayerBuilder(name)
    first = _given(layer, init_hidden, num_layers * ways, hidden_size, "init_hidden")
    states = None if first is None else [[one] for one in first]
    out, after = _stack(input, cell, states, num_layers, ways, sequence_length, dropout_prob, batch_first)
    return out, layers.stack([one[0] for one in after])


def basic_lstm(
    input: Variable,
    init_hidden: Variable | None,
    init_cell: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: Any = None,
    activation: Any = None,
    forget_bias: float = 1.0,
    dtype: Any = "float32",
    name: str = "basic_lstm",
) -> tuple[Variable, Variable, Variable]:
    """(outputs of the last layer, hidden states, cells), the latter two as those of `basic_gru`."""

    def cell(suffix: str) -> LSTMCell:
        settings = (param_attr, bias_attr, gate_activation, activation, forget_bias, dtype)
        return LSTMCell(hidden_size, *settings, f"{name}{suffix}")

    ways = 2 if bidirectional else 1
    layer = LayerBuilder(name)
    hidden = _given(layer, init_hidden, num_layers * ways, hidden_size, "init_hidden")
    cells = _given(layer, init_cell, num_layers * ways, hidden_size, "init_cell")
    if (hidden is None) != (cells is None):
        raise layer.error("give both init_hidden and init_cell, or neither")
    states = None if hidden is None or cells is None else [list(both) for both in zip(hidden, cells, strict=True)]
    out, after = _stack(input, cell, states, num_layers, ways, sequence_length, dropout_prob, batch_first)
    return out, layers.stack([one[0] for one in after]), layers.stack([one[1] for one in after])


def _given(
    layer: LayerBuilder, states: Variable | None, count: int, hidden_size: int, what: str
) -> list[Variable] | None:
    """The first state of each layer and direction, if they are given."""
    if states is None:
        return None
    whole = layers.reshape(layer.variable(states, what), [count, -1, hidden_size])
    return layers.unstack(whole, axis=0, num=count)


def _stack(
    input: Variable,
    cell: Callable[[str], Any],
    states: list[Any] | None,
    num_layers: int,
    ways: int,
    sequence_length: Variable | None,
    dropout_prob: float,
    batch_first: bool,
) -> tuple[Variable, list[Any]]:
    """(what the last layer gives, the states of every layer and direction after it)."""
    out, after = input, []
    for number in range(num_layers):
        outs = []
        for way in range(ways):
            first = None if states is None else states[number * ways + way]
            found, last = rnn(
                cell(f"_layer{number}{'_reverse' if way else ''}"),
                out,
                first if first is None or len(first) > 1 else first[0],
                sequence_length,
                time_major=not batch_first,
                is_reverse=bool(way),
            )
            outs.append(found)
            after.append(last if isinstance(last, list | tuple) else [last])
        out = outs[0] if ways == 1 else layers.concat(outs, axis=2)
        if dropout_prob:
            out = layers.dropout(out, dropout_prob)
    return out, after
